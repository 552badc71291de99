"""Flattened device trees: written trees are read back unchanged, damage is an error."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from needs import installed

from edgepipe.errors import VirtualBoardError
from edgepipe.virtual_board.flat_device_tree import Node, cells, parse, serialise, text

names = st.text("abcdefghijklmnopqrstuvwxyz0123456789,-@", min_size=1, max_size=12)
properties = st.dictionaries(names, st.binary(max_size=9), max_size=4)
trees = st.recursive(
    st.builds(Node, names, properties, st.just([])),
    lambda children: st.builds(Node, names, properties, st.lists(children, max_size=3)),
    max_leaves=8,
)


@given(trees)
def test_written_trees_are_read_back(tree):
    tree.name = ""
    assert parse(serialise(tree)) == tree


def test_same_tree_gives_same_bytes():
    tree = Node("", {"model": text("a board")}, [Node("soc", {"reg": cells(1, 2)})])
    assert serialise(tree) == serialise(parse(serialise(tree)))


def test_dtc_reads_what_is_written():
    tree = Node("", {"#address-cells": cells(1)}, [Node("soc", {"compatible": text("x", "y")})])
    source = subprocess.run(
        [installed("dtc", "device-tree-compiler"), "-q", "-I", "dtb", "-O", "dts"],
        input=serialise(tree),
        capture_output=True,
    ).stdout.decode()
    assert "#address-cells = <0x01>;" in source
    assert 'compatible = "x\\0y";' in source or 'compatible = "x", "y";' in source


@pytest.mark.parametrize("damage", [lambda b: b[:30], lambda b: b[:-4], lambda b: b"\0" * len(b)])
def test_damage_is_an_error(damage):
    blob = serialise(Node("", {"model": text("a board")}, [Node("soc")]))
    with pytest.raises(VirtualBoardError, match="device tree: "):
        parse(damage(blob))


def test_missing_nodes_are_named():
    tree = Node("", {}, [Node("soc"), Node("cpus")])
    with pytest.raises(VirtualBoardError, match="node / has no child 'chosen', found soc, cpus"):
        tree.child("chosen")
    with pytest.raises(VirtualBoardError, match="no node compatible with 'arm,gic-400'"):
        tree.find_compatible("arm,gic-400")
