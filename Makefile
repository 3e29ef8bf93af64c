# `make demo` and `make test` do everything themselves, set-up included. `make help` lists the rest.
# VERBOSE=1 shows the output of every stage.
.DEFAULT_GOAL := help
.PHONY: help docs demo test test-long build python serve bench fuzz fmt lint train train-small requirements setup clean

TENON_VENV ?= .venv
PYTHON := $(TENON_VENV)/bin/python
TENON  := build/release/bin/tenon
# For `make serve ARGS="--model FILE.gguf"`, `make test ARGS="-k streaming"` and the like.
ARGS   ?=

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

demo:  ## sets up, builds, starts the server, asks the bundled model questions over three tools; MODEL=NAME: another one
	@scripts/setup.sh demo
	@scripts/build.sh release tenon
	@$(PYTHON) scripts/demo.py $(if $(MODEL),--model $(MODEL)) $(ARGS)

test:  ## sets up, builds with sanitizers and for release, runs every test
	@scripts/test.sh $(ARGS)

test-long:  ## the same, and the tests that take minutes: long limits, ThreadSanitizer, fuzzers
	@scripts/test.sh --long $(ARGS)

build:  ## the release binary, build/release/bin/tenon
	@scripts/setup.sh build
	@scripts/build.sh release tenon

docs:  ## the reference of C, C++ and Python with all pages, in build/docs/html
	@scripts/setup.sh docs
	@python3 scripts/docs.py

python:  ## the Python package: a wheel in dist/, installed into build/python-venv
	@scripts/setup.sh python
	@scripts/python.sh

serve: build  ## the server on the bundled model, http://127.0.0.1:8080/v1
	@$(TENON) serve $(ARGS)

bench: build  ## the benchmarks of bench/, in the release build, beside their peers
	@scripts/setup.sh bench
	@scripts/build.sh release benchmarks
	@scripts/bench.sh $(ARGS)

fuzz:  ## every fuzz target for a minute (TIME=600 for longer), with clang 19
	@scripts/setup.sh fuzz
	@scripts/fuzz.sh $(ARGS)

fmt:  ## formats what git tracks, in place
	@scripts/setup.sh fmt
	@scripts/lint.sh --fix

lint:  ## format, clang-tidy, includes, and that no machine's names are in the tree
	@scripts/setup.sh lint
	@scripts/lint.sh

train:  ## makes the bundled model anew, hours (training/README.md)
	@scripts/setup.sh train
	@scripts/build.sh release tenon
	@training/train.sh

train-small:  ## the same in some five minutes, to see that it works
	@scripts/setup.sh train
	@scripts/build.sh release tenon
	@training/train.sh --small

requirements:  ## requirements/*.txt from requirements/*.in
	@scripts/requirements.sh $(ARGS)

setup:  ## Debian packages, .venv, libllama, Node packages, the clients of the tests
	@scripts/setup.sh test
	@scripts/setup.sh clients

clean:  ## removes what was built; .venv with libllama stays
	rm -rf build
