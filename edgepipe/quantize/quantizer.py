"""Quantise a float network to integer Relax: options, result and the recipe."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from edgepipe.frontend.network import Network
from edgepipe.frontend.preprocess import Frame, Preprocess
from edgepipe.quantize import fidelity, float_layers, layer_choices
from edgepipe.quantize.calibrate import collect_statistics
from edgepipe.quantize.fidelity import LayerFidelity
from edgepipe.quantize.functions import GatherFunctions
from edgepipe.quantize.fusion import Fuse
from edgepipe.quantize.graph import Graph, TableNode
from edgepipe.quantize.int16 import names as int16_names
from edgepipe.quantize.normalising.gather import GatherNorms
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.passes import run
from edgepipe.quantize.picks import ComposePicks
from edgepipe.quantize.pooling_order import PoolFirst
from edgepipe.quantize.ranges import (
    decoding_layers,
    float_softmaxes,
    float_sums,
    made_float,
    measured_tensors,
    result_nodes,
    unmeasurable,
)
from edgepipe.quantize.read_relax import ReadRelax
from edgepipe.quantize.recognise import Recognise
from edgepipe.quantize.scheme import (
    Scheme,
    TensorRange,
    check_fits,
    network_digest,
    preprocess_digest,
)
from edgepipe.quantize.second_moments import SecondMoments
from edgepipe.quantize.to_integers import ToIntegers
from edgepipe.quantize.unread import RemoveUnread
from edgepipe.quantize.write_relax import WriteRelax
from edgepipe.tvm_adapter import IRModule, read_main

Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedNetwork:
    """A network in integer Relax.

    ``module`` reads ``input_name: uint8[1, h, w, c]`` and returns the float network's outputs.
    ``scales`` gives the real value of one step of every int8 tensor, float64[channels], and
    ``zeros`` the int8 value that stands for 0 if that is not 0; ``int16_scales`` gives that of
    every int16 tensor. ``reasons`` says why an operator
    runs on the CPU, by its float tensor. ``fidelities`` compare the layers of a network that was
    quantised already with what it gave, and ``notices`` say that in sentences; both are empty for
    others. ``scheme`` is all that calibration contributed.
    """

    name: str
    module: IRModule = field(repr=False)
    preprocess: Preprocess
    input_name: str
    output_names: tuple[str, ...]
    scales: Mapping[str, Float] = field(repr=False)
    reasons: Mapping[str, str] = field(repr=False)
    calibration_frames: int
    scheme: Scheme = field(repr=False)
    zeros: Mapping[str, int] = field(default_factory=dict, repr=False)
    int16_scales: Mapping[str, Float] = field(default_factory=dict, repr=False)
    fidelities: tuple[LayerFidelity, ...] = ()
    notices: tuple[str, ...] = ()


def quantize(
    network: Network,
    frames: Iterable[Frame],
    preprocess: Preprocess,
    options: QuantizeOptions | None = None,
    scheme: Scheme | None = None,
) -> QuantizedNetwork:
    """Quantise ``network`` with the ranges that it shows on ``frames`` (uint8[1, h, w, c]).

    Given ranges of a network that was quantised already count in place of those. With a ``scheme``,
    its ranges and options count, and frames are read only if its rounding needs them; the layers
    that stay float or become int16 are those of the scheme and those of ``options``, which also say
    whether functions have one table. Raises
    ``QuantizeError`` if there are no frames, if frames, preprocess, scheme or layers do not fit the
    network, or if a tensor's range is not finite.
    """
    options = options or QuantizeOptions()
    if scheme is not None:
        given = scheme.options
        options = replace(
            given,
            float_layers=tuple(dict.fromkeys((*given.float_layers, *options.float_layers))),
            int16_layers=tuple(dict.fromkeys((*given.int16_layers, *options.int16_layers))),
            one_table=given.one_table or options.one_table,
        )
    in_int8 = understand(network)
    stay_float = float_layers.requested(options.float_layers)
    graph = understand(network, stay_float) if stay_float else in_int8
    wide = int16_names.requested(options.int16_layers, in_int8, graph)
    in_int16 = wide.in_int16
    if wide.in_float:
        stay_float |= dict.fromkeys(wide.in_float, int16_names.FLOAT_REASON)
        graph = understand(network, stay_float)
        in_int16 &= int16_names.computing_nodes(graph)  # a float layer can take in its neighbours
    # A layer that becomes float keeps its range, so a scheme fits whichever layers it names.
    needed = dict.fromkeys((*measured_tensors(in_int8), *measured_tensors(graph)))
    measured = [tensor for tensor in needed if tensor in network.values]
    if scheme is None:
        layer_choices.check(options.layers, in_int8, network)
        frames = list(itertools.islice(frames, options.frames))
        scheme = calibrate(network, measured, frames, preprocess, options)
    else:
        channels = {tensor: graph.channels(tensor) for tensor in measured}
        check_fits(scheme, network, preprocess, channels)
        layer_choices.check(options.layers, in_int8, network, scheme.where)
        scheme = replace(scheme, options=options).with_rules_of_layers()
    moments = None
    if options.reconstructs:
        seen = list(itertools.islice(frames, scheme.frames))
        scheme.require_frames(len(seen))
        names = [node.name for node in graph.nodes]
        moments = SecondMoments(
            network=network,
            graph=graph,
            frames=seen,
            preprocess=preprocess,
            seed=options.seed,
            layers={name for name in names if options.of(name).rounding == "reconstruct"},
        )
    to_integers = ToIntegers(
        measured=scheme.tensors,
        preprocess=preprocess,
        options=options,
        given=network.given,
        moments=moments,
        all_int8=in_int8,
        in_int16=in_int16,
    )
    integers = run(to_integers, graph)
    fidelities: tuple[LayerFidelity, ...] = ()
    if network.was_quantised:
        fidelities = fidelity.layer_fidelities(graph, integers, network.given, options)
    module = run(WriteRelax(network.module), integers)
    return QuantizedNetwork(
        name=network.name,
        module=module,
        preprocess=preprocess,
        input_name=network.input_name,
        output_names=network.output_names,
        scales=integers.scales,
        zeros=integers.zeros,
        int16_scales=integers.int16_scales,
        reasons=reasons(graph) | int16_names.int16_reasons(in_int16),
        calibration_frames=scheme.frames,
        scheme=scheme,
        fidelities=fidelities,
        notices=fidelity.notices(fidelities, network.given.get(network.input_name), preprocess),
    )


def calibrate(
    network: Network,
    tensors: Sequence[str],
    frames: Iterable[Frame],
    preprocess: Preprocess,
    options: QuantizeOptions,
) -> Scheme:
    """Return the scheme that the ranges of ``tensors`` on ``frames`` (uint8[1, h, w, c]) give.

    Raises as ``collect_statistics`` does.
    """
    statistics, count = collect_statistics(
        network, tensors, frames, preprocess, limit=options.frames
    )
    return Scheme(
        network=network_digest(network),
        preprocess=preprocess_digest(preprocess),
        frames=count,
        options=options,
        tensors={
            name: TensorRange.of(found, options.of(name).threshold)
            for name, found in statistics.items()
        },
    )


def reasons(graph: Graph) -> dict[str, str]:
    """Return why operators run on the CPU, by their float tensors."""
    left_float = made_float(graph)
    return {
        node.name: "stays float: its input is float"
        if isinstance(node, TableNode) and node.name in left_float
        else node.reason
        for node in graph.nodes
        if node.reason
    }


def understand(network: Network, layers: Mapping[str, str] | None = None) -> Graph:
    """Return ``network`` as recognised, fused nodes; unrecognised ones have a reason.

    ``layers`` maps those that stay float on request to why; raises ``QuantizeError`` for one that
    the network does not have.

    An integer operator needs the range of its output, which calibration knows only for values of
    the ONNX network. If the importer made several calls of one ONNX operator and they do not fuse
    into one node again, those calls stay float, and the network is read again. So do products and
    normalisations that no integer operator needs, such as a product of two scores, sums of float
    tensors that none needs, a softmax that a float operator reads, and layers that decode its
    probabilities. A network that was quantised already keeps its sums, and its order of functions
    and pools, because it says what is rounded between them.
    """
    main = read_main(network.module)
    keep_float: dict[str, str] = {}
    if layers:
        keep_float = float_layers.calls_of(layers, understand(network), main)
    while True:
        graph = run(ReadRelax(), main)
        graph = run(GatherNorms(keep_float=keep_float), graph)
        graph = run(GatherFunctions(keep_float=keep_float), graph)
        graph = run(Recognise(keep_float=keep_float), graph)
        graph = run(Fuse(), graph)
        graph = run(ComposePicks(), graph)
        if not network.was_quantised:
            graph = run(PoolFirst(), graph)
        graph = run(RemoveUnread(), graph)
        unknown = dict.fromkeys(result_nodes(graph), "only results depend on it")
        unknown |= dict.fromkeys(float_softmaxes(graph), "a float operator or a result reads it")
        unknown |= dict.fromkeys(decoding_layers(graph), "it decodes float results")
        if not network.was_quantised:
            unknown |= dict.fromkeys(float_sums(graph), "no integer operator depends on it")
        for name in unmeasurable(graph, network.values):
            unknown[name] = "calibration cannot measure a range inside it"
        if unknown.keys() <= keep_float.keys():
            return graph
        keep_float = unknown | keep_float


__all__ = ["QuantizeOptions", "QuantizedNetwork", "quantize"]
