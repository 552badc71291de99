# The two main commands are `make demo` and `make test`.
# Requires Debian 12 or newer (or Ubuntu with Python 3.11), and root once for missing packages.

VENV    ?= .venv
PYTHON  := $(VENV)/bin/python
HOST    := build/host
AARCH64 := build/aarch64
ARMHF   := build/armhf
TVM_AARCH64 := build/tvm-aarch64
DEMO    := build/demo

SOURCES := $(shell find edgepipe edgepipe_runtime vta_stages vta_rtl cpp_runtime board -type f -not -path '*/__pycache__/*') \
           CMakeLists.txt pyproject.toml

.PHONY: demo board wheel deb test test-python test-cpp test-cpp-host test-cpp-aarch64 test-board test-networks test-rtl-long test-systems test-sanitizers fuzz fuzz-networks lint format bench-accuracy bench-arm bench-build bench-counts bench-farm bench-model bench-networks bench-page bench-pipeline bench-predicted bench-sim bench-rtl bench-tables bench-vta bench-runtime bitstream-sources rtl-report rtl-proofs rtl-buses bench-split bench-deploy soak docs container container-ci packages clean help

help:
	@echo "make demo            build NanoDet for the Ultra96, run it on a clip on this machine, show the result"
	@echo "make test            tests of C++ and Python: simulator, qemu-user, an emulated Ultra96"
	@echo "make board           programs for boards, checked for glibc 2.27 and size, and all tests for armhf"
	@echo "make wheel           wheels for installing elsewhere, in build/wheels: edgepipe, edgepipe_boards and edgepipe_runtime"
	@echo "make deb             Debian packages for boards, in build/deb, checked by lintian"
	@echo "make test-board      only the board tests, on an emulated Ultra96 or on EDGEPIPE_BOARD=user@host"
	@echo "make test-networks   well-known networks, some from PyPI: each is built and gives the bits of integer Relax; the wheels on each Python"
	@echo "make test-rtl-long   10,000 random programs (RTL_PROGRAMS) on the accelerator's own Verilog, beside the simulator"
	@echo "make fuzz-networks   2,000 random and damaged networks: each is built exactly or refused in one line"
	@echo "make test-systems    tutorials, Ansible, RAUC, Python and power cuts on the emulated Ultra96, deploys killed at every step"
	@echo "make test-sanitizers the C++ tests under ThreadSanitizer, AddressSanitizer and UBSan"
	@echo "make fuzz            libFuzzer and atheris on readers of untrusted input; FUZZ_SECONDS=60 for each target"
	@echo "make lint            ruff, mypy, clang-format, clang-tidy, shellcheck"
	@echo "make docs            the documentation as a site, in build/site; warnings are errors"
	@echo "make container       a container image with edgepipe installed; make container-ci: one with what builds and tests need"
	@echo "make bench-accuracy  int8 against float: Fashion-MNIST, NanoDet's boxes, networks of packages beside onnxruntime's int8"
	@echo "make bench-arm       first convolutions on one and two cores, compared with onnxruntime's int8"
	@echo "make bench-build     time and memory of \`edgepipe build\` for ResNet-18 and NanoDet"
	@echo "make bench-farm      200 simulated boards at one tracker: killed clients, and load until something breaks"
	@echo "make bench-model     the timing model beside layers that TVM measured on boards, and programs on upstream's other hardware"
	@echo "make bench-networks  well-known networks at full size: stages, loads, memory, predicted frames per second, int8 against float"
	@echo "make bench-page      frames per second while 50 and 200 readers follow the live page"
	@echo "make bench-pipeline  serial and pipelined frames per second on the clip"
	@echo "make bench-predicted frames per second that the timing model predicts of an Ultra96, beside others' measurements"
	@echo "make bench-split     the search for a split beside every placement, and its time"
	@echo "make bench-tables    would SiLU, hard-swish ... take less time on the accelerator?"
	@echo "make bench-rtl       cycles of whole networks on the accelerator's own Verilog"
	@echo "make bitstream-sources DESIGN=ultra96 what a bitstream of the accelerator's own hardware is made from (bitstreams/README.md)"
	@echo "make rtl-report      what the accelerator's own hardware takes of two FPGAs, by yosys, beside budgets"
	@echo "make rtl-proofs      formal proofs of the accelerator's own hardware: queues, AXI, window, stores"
	@echo "make rtl-buses       its Verilog behind cocotb's models of AXI: pauses of all channels, error answers"
	@echo "make bench-runtime   handover cost, throughput, a million frames with injected faults"
	@echo "make bench-deploy    a first and an unchanged deploy to an emulated Ultra96"
	@echo "make soak            a camera's pipeline on the virtual Ultra96 for SOAK_MINUTES (30), with injected faults"
	@echo "make bench-counts    instructions of a Cortex-A53 for first convolutions, compared with onnxruntime and ncnn"
	@echo "make bench-sim       the simulator's time for a frame of ResNet-18 on one core"
	@echo "make bench-vta       bench-build, -sim, -arm and -counts, then modelled VTA cycles compared with published figures"
	@echo "make format          format the sources with ruff and clang-format"
	@echo "make clean           remove build/ and $(VENV)/"

demo: $(VENV)/.installed $(DEMO)/nanodet.edgepipe
	$(VENV)/bin/edgepipe run $(DEMO)/nanodet.edgepipe --input examples/pedestrians.avi --output $(DEMO)

$(DEMO)/nanodet.edgepipe: $(VENV)/.installed
	$(VENV)/bin/edgepipe build examples/nanodet_g_coco_416.onnx --board ultra96 \
	    --calib examples/calibration -o $@

test: test-cpp test-python

# Both programs at once, as each waits for much of its time. A test that hangs fails: after 15 minutes, as one of Python does.
test-cpp: $(VENV)/.installed $(AARCH64)/.built
	$(MAKE) --no-print-directory -j 2 --output-sync=target test-cpp-host test-cpp-aarch64

test-cpp-host test-cpp-aarch64: test-cpp-%:
	mkdir -p build/$*/test-files
	TEST_TMPDIR=$(abspath build/$*/test-files) timeout --foreground 900 \
	    $(EMULATOR) build/$*/bin/edgepipe-tests --gtest_brief=1

test-cpp-aarch64: EMULATOR = env QEMU_CPU=cortex-a53 qemu-aarch64-static -L /usr/aarch64-linux-gnu

# One more worker than cores, because the one with the emulated board waits half of the time. Tests start many programs
# in Python, which are faster with compiled modules.
test-python: export PYTHONDONTWRITEBYTECODE =
test-python: $(VENV)/.installed $(AARCH64)/.built
	$(PYTHON) -m pytest -n 3 -m "not armhf and not networks and not systems" $(PYTEST)

# Long tests of edgepipe with the systems around it: run it after a change of board/ or edgepipe/deploy,
# and before a release.
test-systems: $(VENV)/.installed $(AARCH64)/.built
	$(PYTHON) -m pytest -n 3 -m "systems and not armhf and not networks" $(PYTEST)

# Well-known networks as exporters write them and as packages on PyPI contain them, and the longest tests
# of exactness: run it after a change of edgepipe/frontend or edgepipe/quantize, and before a release. The
# wheels are installed on every Python at hand.
test-networks: wheel
	$(PYTHON) -m pytest -n 2 -m "networks and not armhf" $(PYTEST)

# Random networks from a grammar of layers, and damaged ones: about two hours for 2,000.
FUZZ_NETWORKS ?= 2000

fuzz-networks: $(VENV)/.installed
	$(PYTHON) tests/fuzz/fuzz_networks.py $(FUZZ_NETWORKS)

# Random programs on the Verilated accelerator, on all cores. A finding is in build/vta_rtl/findings, and printed with
# the command that runs it again. Fewer than about 1,000 programs have too few kinds of instructions for the last option.
RTL_PROGRAMS ?= 10000
RTL_FIRST_SEED ?= 0
RTL_COVERAGE_PERCENT ?= 95

test-rtl-long: $(VENV)/.installed
	$(PYTHON) tests/fuzz/fuzz_rtl.py $(RTL_PROGRAMS) --first-seed $(RTL_FIRST_SEED) \
	    --least-coverage $(RTL_COVERAGE_PERCENT)

# Formal proofs by SymbiYosys and z3, each also with mutations that it must find; files are in build/rtl-proofs.
rtl-proofs: $(VENV)/.installed
	$(PYTHON) tests/prove_rtl.py

# The core's Verilog under cocotb, compiled once; its log is in build/rtl-buses.
rtl-buses: $(VENV)/.installed
	$(PYTHON) tests/check_rtl_buses.py

# The files for boards, in build/board/ARCHITECTURE: built, and checked against the oldest supported
# image. Runs all tests for armhf; those for aarch64 are part of `make test`. build/sdk/ARCHITECTURE
# has the library and headers for C++ programs.
board: build/board/.written
	QEMU_CPU=cortex-a9 qemu-arm-static -L /usr/arm-linux-gnueabihf \
	    $(ARMHF)/bin/edgepipe-tests --gtest_brief=1
	$(PYTHON) -m pytest -n 3 -m armhf $(PYTEST)

build/board/.written: $(AARCH64)/.built $(ARMHF)/.built
	for arch in aarch64 armhf; do \
	    cmake --install build/$$arch --component board --prefix build/board/$$arch && \
	    cmake --install build/$$arch --component development --prefix build/sdk/$$arch && \
	    cmake --install build/$$arch --component python --prefix build/python/$$arch || exit 1; \
	done > /dev/null
	dtc -q -@ -I dts -O dtb -o build/board/aarch64/board/ultra96-overlay.dtbo board/ultra96-overlay.dts
	dtc -q -@ -I dts -O dtb -o build/board/armhf/board/pynq-z2-overlay.dtbo board/pynq-z2-overlay.dts
	$(PYTHON) cross/check_board.py build/board/aarch64 build/board/armhf build/python/aarch64 build/python/armhf
	@touch $@

# edgepipe for this machine and the files for boards, whose wheels are enough for deploy, and the wheels for Python on boards.
wheel: build/board/.written
	rm -rf build/wheels build/untagged-wheel
	$(VENV)/bin/pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w build/untagged-wheel .
	$(PYTHON) cross/host_wheel.py build/untagged-wheel/edgepipe-*.whl build/wheels
	$(PYTHON) cross/board_wheel.py $$($(PYTHON) -c "import edgepipe; print(edgepipe.__version__)") build/wheels \
	    build/board/aarch64 build/board/armhf
	$(PYTHON) cross/runtime_wheel.py $$($(PYTHON) -c "import edgepipe; print(edgepipe.__version__)") build/wheels \
	    build/python/aarch64/lib/libedgepipe_c.so build/python/armhf/lib/libedgepipe_c.so
	ls -l build/wheels

# Debian packages for boards: edgepipe, edgepipe-dev and gstreamer1.0-edgepipe, for arm64 and armhf.
deb: $(AARCH64)/.built $(ARMHF)/.built
	cross/packages.sh deb
	rm -rf build/deb
	for arch in aarch64 armhf; do \
	    cpack --config build/$$arch/CPackConfig.cmake -B build/deb > build/deb-$$arch.log \
	        || { cat build/deb-$$arch.log; exit 1; }; \
	done
	rm -rf build/deb/_CPack_Packages
	lintian --no-cfg --allow-root --fail-on error,warning build/deb/*.deb
	ls -l build/deb

# On an emulated Ultra96, or on a real board: make test-board EDGEPIPE_BOARD=user@host. The emulated
# one downloads about 230 MB of Debian packages once and caches them in build/test-board. With
# EDGEPIPE_POWER_CUTS=20 its power is cut more often.
test-board: $(VENV)/.installed $(AARCH64)/.built
	$(PYTHON) -m pytest -m "board and not armhf" tests/board $(PYTEST)

# The C++ tests again, instrumented: build/tsan and build/asan.
# ThreadSanitizer knows a suppressed race by its stack, which a short history may no longer have.
SANITIZE_tsan := thread
SANITIZE_asan := address,undefined

test-sanitizers: test-tsan test-asan

test-tsan test-asan: test-%: $(VENV)/.created
	cmake -S . -B build/$* -G Ninja -DCMAKE_UNITY_BUILD=ON -DEDGEPIPE_SANITIZE=$(SANITIZE_$*) \
	    -DPython3_EXECUTABLE=$(abspath $(PYTHON)) > build/$*.log
	cmake --build build/$* --target edgepipe-tests >> build/$*.log || { tail -50 build/$*.log; exit 1; }
	TSAN_OPTIONS="suppressions=cpp_runtime/tests/tsan_suppressions.txt history_size=7" \
	    build/$*/bin/edgepipe-tests --gtest_brief=1

# Starts from the parts of a small real bundle; earlier findings are tests in cpp_runtime/tests and tests/edgepipe.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := archive manifest arm-plan program results pipeline-description http-request picture png-rows rpc-greeting v4l2-answers
PYTHON_FUZZ_TARGETS := bit-header top bundle board-answers exported-pipeline

fuzz: $(VENV)/.installed
	cross/packages.sh fuzz
	cmake -S . -B build/fuzz -G Ninja -DCMAKE_UNITY_BUILD=ON -DCMAKE_CXX_COMPILER=clang++ -DEDGEPIPE_BUILD_FUZZ=ON \
	    -DEDGEPIPE_BUILD_TESTS=OFF -DEDGEPIPE_SANITIZE=address,undefined,fuzzer-no-link \
	    -DPython3_EXECUTABLE=$(abspath $(PYTHON)) > build/fuzz.log
	cmake --build build/fuzz --target fuzz-targets >> build/fuzz.log || { tail -50 build/fuzz.log; exit 1; }
	$(PYTHON) cpp_runtime/fuzz/make_seeds.py build/fuzz/seeds
	$(VENV)/bin/pip install -qq --disable-pip-version-check "atheris>=3.0,<4"
	for target in $(FUZZ_TARGETS) $(PYTHON_FUZZ_TARGETS); do \
	    program=build/fuzz/bin/edgepipe-fuzz-$$target; \
	    case " $(PYTHON_FUZZ_TARGETS) " in \
	        *" $$target "*) program="$(PYTHON) tests/fuzz/fuzz_$$(echo $$target | tr - _).py" ;; \
	    esac; \
	    mkdir -p build/fuzz/corpus/$$target build/fuzz/seeds/$$target build/fuzz/findings && \
	    $$program -max_total_time=$(FUZZ_SECONDS) -timeout=10 \
	        -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix=build/fuzz/findings/$$target- \
	        build/fuzz/corpus/$$target build/fuzz/seeds/$$target 2> build/fuzz/$$target.log \
	        || { tail -40 build/fuzz/$$target.log; exit 1; }; \
	    echo "$$target: $$(sed -n 's/^stat::number_of_executed_units: *//p' build/fuzz/$$target.log) inputs, nothing found"; \
	done

# `make test` does not build the fuzz targets and benchmarks, so that lint checks that they would compile, except the
# two sources that need the headers of Boost and GStreamer.
ON_REQUEST = $(filter-out %/handover.cc %/gstreamer_queue.cc,$(wildcard cpp_runtime/fuzz/*.cc cpp_runtime/bench/*.cc))

lint: $(VENV)/.installed
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	for example in examples/*.py examples/*/*.py; do $(VENV)/bin/mypy $$example || exit 1; done
	find cpp_runtime cross examples -name '*.h' -o -name '*.cc' | xargs clang-format --dry-run -Werror
	printf '%s\n' $(ON_REQUEST) | xargs -P 2 -n 1 $(CXX) -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion \
	    -Werror -Icpp_runtime/include -Icpp_runtime/src
	find bitstreams board cross edgepipe -name '*.sh' | xargs shellcheck --shell=sh --severity=warning
	shellcheck --severity=warning edgepipe/virtual_board/guest/*init edgepipe/virtual_board/guest/devices
	run-clang-tidy -quiet -p $(HOST) '/(edgepipe_core|edgepipe_ffi|edgepipe_c|edgepipe-rpcd|gstedgepipe)\.dir/|cpp_runtime/(src|programs|gstreamer)/' \
	    > build/clang-tidy.log 2> build/clang-tidy-progress.log || { cat build/clang-tidy.log; exit 1; }

# Material's notice about the next major version of MkDocs is not about this site.
docs: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict --quiet
	@echo "to read it: python3 -m http.server --directory build/site --bind 127.0.0.1"

# Images edgepipe and edgepipe-ci, by the first of these three that is installed (docs/guides/containers.md).
CONTAINER ?= $(shell for each in podman buildah docker; do command -v $$each && break; done)
CONTAINER_OPTIONS ?=

container: TARGET = host
container: IMAGE = edgepipe
container-ci: TARGET = ci
container-ci: IMAGE = edgepipe-ci

container container-ci:
	@[ -n "$(CONTAINER)" ] || { echo "found no podman, buildah or docker, expected one of them: apt-get install podman" >&2; exit 1; }
	$(CONTAINER) build $(CONTAINER_OPTIONS) --target $(TARGET) --file Containerfile --tag $(IMAGE) .

format: $(VENV)/.installed
	$(VENV)/bin/ruff check --fix-only . && $(VENV)/bin/ruff format .
	find cpp_runtime cross examples -name '*.h' -o -name '*.cc' | xargs clang-format -i

bench-accuracy bench-arm bench-build bench-farm bench-pipeline bench-rtl bench-sim bench-split bench-tables bench-vta: bench-%: $(VENV)/.installed
	$(PYTHON) -m bench.$*

# DESIGN: ultra96, kv260, zcu104, pynq-z2 or pynq-z2-openxc7. CLOCK_MHZ, EXTENSIONS (requantise,multiply), BLOCK_IN and
# PART choose others than its own.
bitstream-sources: $(VENV)/.installed
	$(PYTHON) -m bitstreams.generate $(DESIGN) $(if $(CLOCK_MHZ),--clock-mhz $(CLOCK_MHZ)) \
	    $(if $(EXTENSIONS),--extensions $(EXTENSIONS)) $(if $(BLOCK_IN),--block-in $(BLOCK_IN)) $(if $(PART),--part $(PART))

# RECORD=1 also writes vta_rtl/resources.json, which the tests check: about 25 minutes of a core if all circuits have
# changed, one or two if none has.
rtl-report: $(VENV)/.installed
	$(PYTHON) -m bench.rtl_report $(if $(RECORD),--record)

bench-model: $(VENV)/.installed
	$(PYTHON) -m bench.chisel_model
	$(PYTHON) -m bench.model

bench-predicted: $(VENV)/.installed
	$(PYTHON) -m bench.predicted
	$(PYTHON) -m bench.fitted_choice

# Well-known networks by the timing model, and beside float: about a quarter of an hour.
# `python -m bench.network_page` writes docs/reference/networks.md of it.
bench-networks: $(VENV)/.installed
	$(PYTHON) -m bench.exported

# All limits of the compiler: its programs, build time, the simulator, ARM stages.
bench-vta: bench-build bench-sim bench-arm bench-counts

bench-counts: $(VENV)/.installed $(AARCH64)/.built
	cross/packages.sh counts
	$(PYTHON) -m bench.counts

bench-deploy: $(VENV)/.installed $(AARCH64)/.built
	$(PYTHON) -m bench.deploy

bench-page: $(VENV)/.installed
	cmake -S . -B $(HOST) > $(HOST).log
	cmake --build $(HOST) --target edgepipe-cam
	$(PYTHON) -m bench.page

SOAK_MINUTES ?= 30
soak: $(VENV)/.installed $(AARCH64)/.built
	$(PYTHON) -m bench.soak --minutes $(SOAK_MINUTES)

bench-runtime: $(VENV)/.installed $(DEMO)/nanodet.edgepipe
	cross/packages.sh bench
	cmake -S . -B $(HOST) > $(HOST).log
	cmake --build $(HOST) --target edgepipe-bench-check edgepipe-bench-hops edgepipe-bench-soak edgepipe-bench-throughput \
	    edgepipe-bench-handover
	$(PYTHON) -m bench.runtime $(HOST)/bin $(DEMO)/nanodet.edgepipe

packages: build/.packages

build/.packages: cross/packages.sh
	cross/packages.sh
	@mkdir -p build && touch $@

$(VENV)/.created: build/.packages
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install -qq --disable-pip-version-check "scikit-build-core>=0.10" \
	    apache-tvm==0.27.0.post1 apache-tvm-ffi==0.1.14.post1
	@touch $@

$(VENV)/.installed: $(VENV)/.created $(SOURCES)
	$(VENV)/bin/pip install -qq --disable-pip-version-check --no-build-isolation \
	    --config-settings=cmake.define.EDGEPIPE_BUILD_TESTS=ON ".[build,dev,docs,rtl]"
	@touch $@

$(TVM_AARCH64)/.pins: $(VENV)/.created cross/tvm-aarch64.txt cross/fetch-tvm.sh
	cross/fetch-tvm.sh $(TVM_AARCH64) $(PYTHON)
	@touch $@

# Debian's GStreamer for a board's architecture, for its plug-in; without a Debian mirror, there is none.
build/gstreamer/%.fetched: cross/fetch_gstreamer.py $(VENV)/.installed
	$(PYTHON) cross/fetch_gstreamer.py $* build/gstreamer/$*
	@mkdir -p build/gstreamer && touch $@

$(AARCH64)/.built: $(TVM_AARCH64)/.pins
$(AARCH64)/.built: TVM_LIBRARIES = $(abspath $(TVM_AARCH64))
$(ARMHF)/.built: $(shell find cross/tvm -type f)
$(AARCH64)/.built $(ARMHF)/.built: build/%/.built: $(VENV)/.installed cross/%.cmake cross/old_glibc.cc build/gstreamer/%.fetched
	cmake -S . -B build/$* -G Ninja -DCMAKE_UNITY_BUILD=ON -DCMAKE_TOOLCHAIN_FILE=cross/$*.cmake \
	    -DPython3_EXECUTABLE=$(abspath $(PYTHON)) \
	    -DEDGEPIPE_GSTREAMER=$(abspath build/gstreamer/$*) \
	    -DEDGEPIPE_BUILD_GSTREAMER=$$([ -d build/gstreamer/$*/usr ] && echo ON || echo OFF) \
	    -DEDGEPIPE_TVM_LIBRARIES=$(TVM_LIBRARIES) > build/$*.log 2>&1 || { cat build/$*.log; exit 1; }
	cmake --build build/$* >> build/$*.log 2>&1 || { tail -50 build/$*.log; exit 1; }
	@touch $@

clean:
	rm -rf build $(VENV)
