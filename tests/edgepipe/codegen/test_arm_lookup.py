"""Tables on boards are looked up in vectors: a byte alone would take several instructions."""

import re
import subprocess

import numpy as np
import pytest
from arm_layers import module_of, spec
from needs import installed

from edgepipe.codegen.arm.stage import compile_arm_stage
from vta_stages.layers.records import Table

BINUTILS = {
    "aarch64": ("aarch64-linux-gnu", r"\ttb[lx]\s"),
    "armhf": ("arm-linux-gnueabihf", r"\tvtb[lx]\.8\s"),
}


@pytest.mark.cross
@pytest.mark.parametrize("architecture", BINUTILS)
def test_a_table_is_looked_up_in_vectors(architecture, tmp_path):
    picture = spec("x", 64, 40, 40)
    table = np.arange(256, dtype=np.uint8).view(np.int8)[np.newaxis]
    layer = Table(name="y", input=picture, output=spec("y", 64, 40, 40), table=table)
    compile_arm_stage(module_of([layer], [picture]), arches=(architecture,)).write(tmp_path)
    triple, look_up = BINUTILS[architecture]
    objdump = installed(f"{triple}-objdump", f"binutils-{triple}")
    listing = subprocess.run(
        [objdump, "-d", tmp_path / f"kernels-{architecture}.so"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert len(re.findall(look_up, listing)) >= 4
