export ANSIBLE_CONFIG=/etc/ansible/ansible.cfg
