// Manifest: the contents of a bundle's manifest.json (format 2).
//
//   Result<Manifest> manifest = parse_manifest(content);
//
// A manifest that parses is consistent: every tensor named by a stage, the golden files or the
// postprocessing exists, and every file that it refers to is in `files`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "edgepipe/accelerator.h"
#include "edgepipe/graph.h"
#include "edgepipe/status.h"

namespace edgepipe {

struct StageSpec {
  std::string name;
  std::string kind;                 // "arm" or "vta"
  std::string folder;               // inside the bundle
  std::string fallback;             // folder of ARM kernels with the same results, or empty
  std::vector<std::size_t> reads;   // indices into Manifest::tensors
  std::vector<std::size_t> writes;  // the same
  std::vector<int> cores;           // of its threads, from the board's file; empty: none
  std::size_t threads = 1;          // 1: on any of `cores`; more: one per core
  int realtime_priority = 0;        // of its threads; 0: the normal scheduler
  std::chrono::microseconds modelled_time{0};  // of a run on the board's cores; 0: not modelled
};

/// Where a picture lies in the network's input: scaled to `fitted_width` x `fitted_height` pixels,
/// of which `left` and `top` are cut off. Negative: as many pixels of padding instead.
struct Placement {
  int width = 0;  // of the picture, pixels
  int height = 0;
  int fitted_width = 0;
  int fitted_height = 0;
  int left = 0;
  int top = 0;

  /// Pixels of the input per pixel of the picture.
  [[nodiscard]] double scale_x() const { return static_cast<double>(fitted_width) / width; }
  [[nodiscard]] double scale_y() const { return static_cast<double>(fitted_height) / height; }

  /// A coordinate of the input in pixels of the picture.
  [[nodiscard]] float picture_x(float x) const;
  [[nodiscard]] float picture_y(float y) const;
};

/// How a camera's picture becomes the network's input. The conversion from bytes to int8 is part of
/// the first stage.
struct Preprocess {
  int width = 0;              // pixels
  int height = 0;             // pixels
  std::string order;          // "BGR", "RGB" or "GRAY"
  std::string fit;            // "stretch", "center_crop" or "letterbox"
  int resize_short_side = 0;  // pixels; center_crop only
  int padding = 0;            // letterbox: the byte beside the picture
  std::string align = {};     // letterbox: "center" or "top_left"

  [[nodiscard]] int channels() const { return order == "GRAY" ? 1 : 3; }

  /// Where a picture of positive size lies in the input.
  [[nodiscard]] Placement place(int picture_width, int picture_height) const;
};

/// How output tensors become results.
struct Postprocess {
  std::string kind;                 // "none", "classify", ..., or a kind of detection head
  std::string labels;               // file in the bundle, one class name per line; empty: none
  int top = 0;                      // classify: number of classes
  std::string activation = "none";  // of the scores: "none", "sigmoid" or "softmax"
  double map_threshold = 0.3;       // db: of a cell that belongs to text
  double unclip = 1.5;              // db: how much wider a text is than its region
  std::string blank = "first";      // ctc: where the blank is among the scores; or "last"

  // own: a user's own decoder of `outputs`.
  std::string gives;                   // "boxes", "classes", "points" or "text"
  int most = 0;                        // of these in a frame; bytes of a text
  std::vector<std::string> libraries;  // files in the bundle: decoder/ARCHITECTURE.so
  std::string symbol;                  // the libraries' function
  std::string function;                // of Python, "FILE:NAME"; FILE in the bundle; empty: none

  // Detection heads. Tensors are indices into Manifest::tensors: one per stride, or one for all.
  std::vector<std::int64_t> strides;         // pixels per cell
  std::vector<std::int64_t> grids;           // cells of a side, instead of strides
  std::vector<std::size_t> outputs;          // everything in one tensor
  std::vector<std::size_t> scores;           // or the scores of the classes,
  std::vector<std::size_t> distances;        // the values of the boxes,
  std::vector<std::size_t> centers;          // offsets of the centres
  std::vector<std::size_t> landmarks;        // and points of the boxes
  std::vector<std::vector<double>> anchors;  // per stride: width and height, in pixels, of each box
  std::string formula;                       // anchors: "v3", "v5"; boxes: "corners"
  int bins = 1;                              // of a distance's distribution; 1: the distance
  int per_cell = 1;                          // boxes, if there are no anchors
  double cell_offset = 0.5;                  // of a cell's centre
  std::vector<double> variances = {1, 1};    // ssd: of centre and size
  bool background = false;                   // the first score belongs to no class
  bool objectness = false;  // boxes: a score of its own, multiplied with the others
  bool normalized = false;  // boxes: 1 is the whole input
  int points = 0;           // of each box; also of an own decoder's
  int point_values = 2;     // 3: each has a score, too
  double score_threshold = 0;
  double iou_threshold = 0;
  std::size_t most_candidates = 1000;  // only the best ones enter suppression; not in manifests
  std::size_t most_boxes = 100;        // of a frame; the same

  /// The FILE of `function`.
  [[nodiscard]] std::string function_file() const {
    return function.substr(0, function.rfind(':'));
  }
};

/// A golden tensor and the file of the bundle that contains it.
struct GoldenFile {
  std::size_t tensor;  // index into Manifest::tensors
  std::string file;
};

/// What a board must match before the bundle may run on it; compared in fingerprint.h.
struct Fingerprint {
  std::string configuration;
  std::string revision;
  std::uint64_t clock_hz = 0;
  std::string bitstream;  // path of the published file; empty: unpublished
  std::string builder_version;
};

struct FileEntry {
  std::string path;
  std::uint64_t bytes;
  std::string sha256;  // 64 hex digits
};

struct Manifest {
  std::string name;
  std::uint64_t version = 0;  // of the bundle, grows with every release; 0: none
  std::string board;
  std::string board_architecture;  // empty: unknown
  std::vector<std::string> architectures;
  Accelerator accelerator;
  Fingerprint fingerprint;
  std::vector<TensorSpec> tensors;
  std::vector<std::size_t> inputs;
  std::vector<std::size_t> outputs;
  std::vector<StageSpec> stages;
  std::size_t slots = 0;       // default number of frames in flight; 0: unknown
  std::size_t live_slots = 0;  // the same for cameras, whose results should be new; 0: as slots
  Preprocess preprocess;
  Postprocess postprocess;
  std::vector<GoldenFile> golden_inputs;
  std::vector<GoldenFile> golden_outputs;
  std::vector<FileEntry> files;

  [[nodiscard]] std::optional<std::size_t> tensor_index(std::string_view tensor_name) const;

  /// The tensors that the decoder or the check of the golden outputs reads from a finished frame.
  [[nodiscard]] std::vector<std::size_t> read_at_the_end() const;
};

/// Parses and checks the text of manifest.json. kCorrupt for damage, with the field and its value;
/// kUnsupported for another format version. Ignores unknown keys.
Result<Manifest> parse_manifest(std::span<const std::byte> text);

/// kUnsupported for the manifest of another format version. OK for anything else, including damage.
Status check_manifest_format(std::span<const std::byte> text);

}  // namespace edgepipe
