# SPDX-License-Identifier: GPL-3.0-or-later
# The two doors: `make lab` and `make test`. `make` alone lists all targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := $(CURDIR)/.venv
ANSIBLE := $(VENV)/bin/ansible-playbook
export PATH := $(VENV)/bin:$(PATH)
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
# Say something at once, also through a pipe.
export PYTHONUNBUFFERED := 1
# More arguments for ansible-playbook: make lab ARGS='--check -v'
ARGS ?=
INVENTORY ?= inventory/machine.yml
# Where the artifacts come from; what is not said stays with the bundle role, which asks.
BUNDLE_SOURCE ?=
BUNDLE_SOURCES := auto upstream standin
ifneq ($(filter-out $(BUNDLE_SOURCES),$(BUNDLE_SOURCE))$(filter-out 0 1,$(words $(BUNDLE_SOURCE))),)
$(error BUNDLE_SOURCE is one of $(BUNDLE_SOURCES), not "$(BUNDLE_SOURCE)"; nothing was done)
endif
BUNDLE := $(addprefix -e bundle_source=,$(BUNDLE_SOURCE))

.PHONY: help
help: ## This list
	@echo 'gsb.fake_gpu_lab: a Kubernetes GPU lab without a GPU'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo '  One step:      .venv/bin/ansible-playbook lab.yml --tags step6'
	@echo '  Its origin:    make lab BUNDLE_SOURCE=standin   # or upstream, or auto'
	@echo '  More options:  make lab ARGS="--check -v"'

.PHONY: lab
lab: venv ## From this machine to eight done steps and report.json
	$(ANSIBLE) -i $(INVENTORY) lab.yml $(BUNDLE) $(ARGS)

.PHONY: verify
verify: venv ## Judge the eight steps; changes nothing
	$(ANSIBLE) -i $(INVENTORY) playbooks/verify.yml $(ARGS)

.PHONY: down
down: venv ## Remove the lab's machine and all that it left
	$(ANSIBLE) -i $(INVENTORY) playbooks/machine.yml -e machine_state=absent $(ARGS)

.PHONY: bundle
bundle: venv ## Make the folder of artifacts that the lab is installed from
	$(ANSIBLE) -i $(INVENTORY) lab.yml --tags bundle $(BUNDLE) $(ARGS)

# Where it is filled from the stand-ins, and where what is downloaded from it is kept.
INTERNET := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gsb-fake-gpu-lab/test/internet

.PHONY: try-upstream
try-upstream: venv ## make lab BUNDLE_SOURCE=upstream, with our own server in place of the internet
	@$(MAKE) --no-print-directory bundle BUNDLE_SOURCE=standin ARGS=
	$(VENV)/bin/python tests/upstream/internet.py --folder $(INTERNET) --proxy -- \
	  make --no-print-directory lab BUNDLE='-e bundle_source=upstream -e @$(INTERNET)/variables.json'

.PHONY: pins-check
pins-check: venv ## Which pins have newer releases, as far as upstream can be asked
	$(VENV)/bin/python -m standins.build.newer $(ARGS)

.PHONY: image
image: venv ## A disk image of the lab, checked and booted once
	$(ANSIBLE) playbooks/bake.yml $(ARGS)
	$(ANSIBLE) playbooks/try.yml -e try_state=checked $(ARGS)

.PHONY: image-test
image-test: venv ## The baked root folder, and machines from it: ready, different, restarted, walked
	$(VENV)/bin/pytest -q tests/image $(ARGS)

.PHONY: test
test: venv ## Everything: linters, units, the lab on a real Kubernetes by molecule
	$(VENV)/bin/python tests/run.py $(ARGS)

.PHONY: quick
quick: venv ## What needs no machine: linters, unit tests, sanity
	$(VENV)/bin/python tests/run.py --only lint,unit,collection,sanity,go $(ARGS)

.PHONY: bench
bench: venv ## What counting GPUs costs on a large cluster, beside other ways to do it
	$(VENV)/bin/python tests/bench/run.py $(ARGS)

.PHONY: venv
venv: $(VENV)/.ready ## The Python environment .venv with pinned requirements

$(VENV)/.ready: requirements.txt constraints.txt
	@echo "venv: Python packages of requirements.txt into .venv (one or two minutes)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "venv: $(PYTHON) is $$($(PYTHON) -V 2>&1); 3.11 or newer is needed: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  echo "venv: installing python3-venv with apt"; \
	  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy python3-venv; }
	@$(PYTHON) -m venv --clear $(VENV)
	@$(VENV)/bin/pip install -q --disable-pip-version-check --no-compile -r requirements.txt -c constraints.txt
	@mkdir -p $(VENV)/collections/ansible_collections/gsb
	@ln -sfn ../../../.. $(VENV)/collections/ansible_collections/gsb/fake_gpu_lab
	@touch $@

.DEFAULT:
	@echo "make: there is no target $@; these are there:"; $(MAKE) -s help; exit 2
