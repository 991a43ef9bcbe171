# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
#
# For those who build their images with Packer: it makes the image with the same playbook, on this machine, as root.
#
#   packer build gpu-lab.pkr.hcl
#   packer build -var 'authorized_keys=["ssh-ed25519 AAAA... me"]' -var dest=/srv/images gpu-lab.pkr.hcl

variable "dest" {
  type        = string
  description = "Folder for the files."
  default     = "output"
}

variable "hostname" {
  type    = string
  default = "gpu-lab"
}

variable "size_gib" {
  type    = number
  default = 4
}

variable "packages" {
  type        = list(string)
  description = "More Debian packages."
  default     = []
}

variable "authorized_keys" {
  type        = list(string)
  description = "ssh keys of root."
  default     = []
}

locals {
  settings = jsonencode({
    image_dest            = abspath(var.dest)
    image_hostname        = var.hostname
    image_size_gib        = var.size_gib
    image_packages        = var.packages
    image_authorized_keys = var.authorized_keys
  })
}

source "null" "gpu-lab" {
  communicator = "none"
}

build {
  sources = ["source.null.gpu-lab"]

  provisioner "shell-local" {
    environment_vars = ["SETTINGS=${local.settings}"]
    inline = [
      "cd '${path.root}/..' && make venv && .venv/bin/ansible-playbook playbooks/bake.yml -e \"$SETTINGS\"",
    ]
  }

  post-processor "manifest" {
    output = "${var.dest}/packer.json"
  }
}
