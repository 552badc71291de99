#!/bin/sh
# Extract TVM's runtime libraries for aarch64 from its wheels, checked against cross/tvm-aarch64.txt.
#
#   cross/fetch-tvm.sh FOLDER [PYTHON]
#
# Writes libtvm_runtime.so and libtvm_ffi.so to FOLDER, unless they are there with the right digests.
set -eu

folder=$1
python=${2:-python3}
pins=$(dirname "$0")/tvm-aarch64.txt

if [ -f "$folder/.pins" ] && cmp -s "$pins" "$folder/.pins"; then
    exit 0
fi
mkdir -p "$folder"
wheels=$(mktemp -d "$folder/wheels.XXXXXX")
trap 'rm -rf "$wheels"' EXIT

"$python" -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: \
    --require-hashes --requirement "$pins" --dest "$wheels" \
    --implementation cp --python-version 311 \
    --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64
for wheel in "$wheels"/*.whl; do
    "$python" -m zipfile -e "$wheel" "$wheels/files"
done
mv "$wheels/files/tvm/lib/libtvm_runtime.so" "$wheels/files/tvm_ffi/lib/libtvm_ffi.so" "$folder"
cp "$pins" "$folder/.pins"
