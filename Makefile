# make book                    the published studies, and on a page of its own a quick one, grocery-quick, trained here
# make book STUDY=published    the published studies alone: those that the text is about, `FIRST` in report/editions.py
# make book STUDY=quick        the book of grocery-quick alone
# make book STUDY=a,b          the book of these studies side by side
# make single                  one page of the book made last, to print or to save as PDF
# make lab                     JupyterLab: the chapters' notebooks, and what papermill made of them
# make test                    the tests
# make golden                  accept what the book shows now into tests/golden/
# make mutations               change a copy in ways that a reader would notice, and say which tests do
# make evidence                the long studies, resumed where they stand; needs DMLRC_DATA
STUDY ?= published,quick
WORKERS ?= $(shell nproc 2>/dev/null || echo 1)
PYTHON ?= python3
BIN = .venv/bin

.PHONY: book single lab test lint lock bench golden mutations evidence clean

book: .venv/ready
	$(BIN)/dmlrc book $(STUDY) --workers $(WORKERS)

single: .venv/ready
	$(BIN)/dmlrc single

lab: .venv/ready
	$(BIN)/jupyter lab

# A file's tests run in one worker, and so do all that share a book: it is made once. tests/conftest.py puts them
# together, the long files first. Bytecode is written here too: many tests start processes, and each would compile all.
test: .venv/ready
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

lint: .venv/ready
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports --no-cache

bench: .venv/ready
	$(BIN)/python -m benchmarks

golden: .venv/ready
	$(BIN)/python -m dmlrc.report.golden tests/golden --again
	git diff --stat tests/golden

mutations: .venv/ready
	$(BIN)/python tests/mutations.py

# The long studies, in their order; days of two cores. Resumable: stop it at any moment, call it again.
# `make book STUDY=NAME` runs the other papers' experiments around a table; their rates are chosen here.
EVIDENCE = cars196crops-frozen/rates cub200-2010-frozen/rates grocery-frozen/rates \
	cub200-2010-frozen/oi2021/rates cub200-2010-frozen/zhai2019/rates \
	cub200-2010-frozen/roth2020/rates cub200-2010-frozen/fehervari2019/rates \
	cars196crops-frozen/oi2021/rates cars196crops-frozen/zhai2019/rates \
	cars196crops-frozen/roth2020/rates cars196crops-frozen/fehervari2019/rates \
	grocery-frozen/oi2021/rates grocery-frozen/zhai2019/rates \
	grocery-frozen/roth2020/rates grocery-frozen/fehervari2019/rates \
	cub200-2010-frozen cars196crops-frozen grocery-frozen \
	cub200-2010-frozen/after2019 cars196crops-frozen/after2019 grocery-frozen/after2019 \
	cub200-2010-frozen/rate-tenfold cars196crops-frozen/rate-searched \
	cub200-2010-frozen/rates-searched grocery-frozen/rates-searched cars196crops-frozen/rates-searched \
	cub200-2010-frozen/log-scales cars196crops-frozen/log-scales grocery-frozen/log-scales \
	cars196crops-depths/squeezenet-last-block/rates cars196crops-depths/squeezenet-embedder-alone/rates cub200-2010-depths/squeezenet-last-block/rates \
	cub200-2010-depths/squeezenet-embedder-alone/rates omniglot-scratch/rates \
	cars196crops-depths/squeezenet-last-block cars196crops-depths/squeezenet-embedder-alone cub200-2010-depths/squeezenet-last-block cub200-2010-depths/squeezenet-embedder-alone \
	omniglot-scratch cars196crops-depths/squeezenet-last-block/embedder-rates cub200-2010-depths/squeezenet-last-block/embedder-rates \
	cars196crops-depths/mobilenetv2-embedder/rates cars196crops-depths/mobilenetv2-last-block/rates cars196crops-depths/mobilenetv2-half/rates cars196crops-depths/mobilenetv2-whole/rates \
	cars196crops-depths/mobilenetv2-embedder cars196crops-depths/mobilenetv2-last-block cars196crops-depths/mobilenetv2-half cars196crops-depths/mobilenetv2-whole \
	icons-scratch/rates icons-scratch

evidence: .venv/ready
	set -e; for study in $(EVIDENCE); do $(BIN)/dmlrc study run $$study --workers $(WORKERS); done

# requirements.lock holds every version; it is resolved from the direct pins in pyproject.toml.
# Bytecode is written here once: where Python is told not to, each process would compile torch again, for seconds.
.venv/ready: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; (3, 11) <= sys.version_info < (3, 14) or sys.exit("dmlrc needs Python 3.11, 3.12 or 3.13: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --requirement requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	touch $@

lock: .venv/ready
	$(BIN)/uv pip compile --universal --python-version 3.11 --group env --no-annotate --no-header --quiet \
		--upgrade --output-file requirements.lock pyproject.toml

clean:
	rm -rf .venv runs book/chapters _build
