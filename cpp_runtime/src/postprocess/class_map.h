// make_class_mapper: the class of every cell of a segmentation network's map.
//
//   Result<std::unique_ptr<Decoder>> mapper = make_class_mapper(manifest, labels);
//   const ClassMap map = (*mapper)->decode(tensors)->map;
//
// The tensor is [1, classes, rows, columns] or [1, rows, columns, classes]; which of them, its
// sides show: rows and columns are in the proportion of the input's. Of several classes the one
// with the highest score wins, ties go to the lower index. A single class is told from the rest,
// class 0, by the score threshold.
#pragma once

#include <memory>

#include "postprocess/decoder.h"

namespace edgepipe {

/// kCorrupt for a tensor of another shape, and for more than 256 classes.
Result<std::unique_ptr<Decoder>> make_class_mapper(const Manifest& manifest, const Labels& labels);

/// `map` with the cells whose centres show a picture that lies in an input of `width` x `height`
/// pixels as `placement` says.
ClassMap within_picture(ClassMap map, int width, int height, const Placement& placement);

}  // namespace edgepipe
