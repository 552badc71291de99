"""Rewrites of the ONNX graph before import, for what TVM or the quantiser cannot handle."""

from __future__ import annotations

import onnx

from edgepipe.frontend.channel_moves import select_channels
from edgepipe.frontend.decomposing import decompose
from edgepipe.frontend.float_types import plain_casts
from edgepipe.frontend.folding import fold_constants, infer_shapes
from edgepipe.frontend.old_opsets import modernise
from edgepipe.frontend.onnx_graph import remove_unread
from edgepipe.frontend.padding import explicit_padding, fold_pads, split_pads
from edgepipe.frontend.picture_input import remove_identities
from edgepipe.frontend.rewrites.any_shape import pictures_of_any_shape
from edgepipe.frontend.rewrites.assignments import join_assigned_parts
from edgepipe.frontend.rewrites.batches import batches_as_pictures
from edgepipe.frontend.rewrites.between_reshapes import arithmetic_before_reshapes
from edgepipe.frontend.rewrites.channels_last import channels_stay_first
from edgepipe.frontend.rewrites.einsums import plain_einsums
from edgepipe.frontend.rewrites.elementwise import as_sums
from edgepipe.frontend.rewrites.group_norms import plain_groups
from edgepipe.frontend.rewrites.linear_attention import plain_linear_attention
from edgepipe.frontend.rewrites.mixed_shares import unmix_shares
from edgepipe.frontend.rewrites.moments import subtract_means_first
from edgepipe.frontend.rewrites.norm_calls import write_norms
from edgepipe.frontend.rewrites.norms import gather_norms
from edgepipe.frontend.rewrites.other_axes import as_pictures
from edgepipe.frontend.rewrites.picture_layout import layers_channels_first
from edgepipe.frontend.rewrites.pools import pool_windows
from edgepipe.frontend.rewrites.position_scores import join_position_scores
from edgepipe.frontend.rewrites.reducing import reduce_pictures
from edgepipe.frontend.rewrites.scores import plain_scores
from edgepipe.frontend.rewrites.skewed_positions import straighten_positions
from edgepipe.frontend.rewrites.softmaxes import plain_softmaxes
from edgepipe.frontend.rewrites.space_to_depth import gather_blocks
from edgepipe.frontend.rewrites.stacks import unstack
from edgepipe.frontend.rewrites.token_layers import token_layers
from edgepipe.frontend.separable import resampling_as_products


def simplify(model: onnx.ModelProto) -> None:
    """Rewrite ``model``, whose input has a static size, so that it computes the same values.

    Each pass requires the shapes in ``value_info``, and keeps the names of the values that remain.
    """
    modernise(model)
    fold_constants(model)
    plain_casts(model)
    plain_einsums(model)
    join_assigned_parts(model)
    plain_linear_attention(model)
    straighten_positions(model)
    infer_shapes(model)
    join_position_scores(model)
    unmix_shares(model)
    arithmetic_before_reshapes(model)
    plain_groups(model)
    subtract_means_first(model)
    layers_channels_first(model)
    remove_identities(model)
    explicit_padding(model)
    channels_stay_first(model)
    remove_identities(model)
    split_pads(model)
    fold_pads(model)
    unstack(model)
    gather_blocks(model)
    batches_as_pictures(model)
    plain_softmaxes(model)
    plain_scores(model)
    infer_shapes(model)
    reduce_pictures(model)
    infer_shapes(model)
    gather_norms(model)
    decompose(model)
    token_layers(model)
    remove_identities(model)
    pictures_of_any_shape(model)
    pool_windows(model)
    as_pictures(model)
    as_sums(model)
    select_channels(model)
    remove_unread(model.graph)
    resampling_as_products(model)
    write_norms(model)
    remove_identities(model)
    infer_shapes(model)
