// read_postprocess: the "postprocess" table of a manifest.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "edgepipe/manifest.h"

namespace edgepipe {

/// Reads the table into manifest.postprocess. The manifest's tensors and outputs must have been
/// read. Errors name the key.
void read_postprocess(JsonReader& item, Manifest& manifest);

/// The index of the tensor `name`; an error about `key` if there is none.
std::size_t tensor_of(JsonReader& reader, const char* key, const std::string& name,
                      const Manifest& manifest);

/// The indices of the tensors named at `key`; an error for a name that is not in tensors.
std::vector<std::size_t> tensors_of(JsonReader& reader, const char* key, const Manifest& manifest);

}  // namespace edgepipe
