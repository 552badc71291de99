// StageLoader: creates the stages of bundles, each by its kind.
//
//   StageLoader loader(devices);
//   Result<StageNode> node = loader.load(bundle, bundle.manifest().stages[0]);
#pragma once

#include <cstddef>
#include <memory>

#include "edgepipe/bundle.h"
#include "edgepipe/device.h"
#include "edgepipe/graph.h"
#include "edgepipe/manifest.h"
#include "edgepipe/status.h"

namespace edgepipe {

class StageLoader {
 public:
  /// `devices` is borrowed for the lifetime of the loader.
  explicit StageLoader(const DeviceSet& devices) : devices_(devices) {}

  /// Loads kernels or program from the bundle's files, and the fallback if the stage has one. VTA
  /// stages take the devices in turn; without devices they are kInvalidArgument. Errors name the
  /// stage's folder. The node's tensors are those of the manifest.
  Result<StageNode> load(const Bundle& bundle, const StageSpec& spec);

 private:
  Result<std::unique_ptr<Stage>> load_vta(const Bundle& bundle, const StageSpec& spec);

  const DeviceSet& devices_;
  std::size_t vta_stages_ = 0;  // loaded so far
};

}  // namespace edgepipe
