#include "edgepipe/bundle.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/host_architecture.h"
#include "base/thread.h"
#include "bundle/bundle_files.h"
#include "bundle/policy.h"
#include "bundle/sha256.h"
#include "bundle/signature.h"
#include "bundle/stage_loader.h"

namespace edgepipe {
namespace {

constexpr std::string_view kManifest = "manifest.json";
constexpr std::string_view kManifestDigest = "manifest.digest";
constexpr std::string_view kSignature = "manifest.sig";
constexpr const char* kDamaged = "the bundle is truncated or modified: build or copy it again";

Status not_as_recorded(std::string_view file, std::string_view where) {
  return Status(Code::kCorrupt, std::string(file) + " does not have the digest that " +
                                    std::string(where) + " records");
}

/// The signer of the bundle; empty if the policy requires none.
Result<std::string> accepted_signer(const BundleFiles& files, const Policy& policy) {
  if (!policy.require_signature) return std::string();
  Result<std::span<const std::byte>> text = files.content(kManifest);
  if (!text.ok()) return text.status();
  Result<std::span<const std::byte>> signature = files.content(kSignature);
  if (!signature.ok()) {
    return Status(Code::kUnsigned, "the bundle is not signed, and this machine requires it",
                  "sign it with a key that this machine trusts: `edgepipe sign`");
  }
  return verify_signature(*text, *signature, policy.allowed_signers);
}

/// The text of the manifest, checked against its digest.
Result<std::span<const std::byte>> checked_manifest(const BundleFiles& files) {
  Result<std::span<const std::byte>> text = files.content(kManifest);
  if (!text.ok()) return text;
  const Result<std::span<const std::byte>> recorded = files.content(kManifestDigest);
  if (!recorded.ok()) return recorded.status();
  const std::string expected = sha256(*text) + "\n";
  if (!std::ranges::equal(*recorded, std::as_bytes(std::span(expected)))) {
    if (recorded->size() != expected.size()) {  // as in another format
      if (Status status = check_manifest_format(*text); !status.ok()) return status;
    }
    return not_as_recorded(kManifest, kManifestDigest);
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<Bundle>> Bundle::open(const std::filesystem::path& path,
                                             const std::filesystem::path& policy) {
  return open_checked(path, policy.empty() ? Policy::kFile : policy).advised(kDamaged);
}

Result<std::unique_ptr<Bundle>> Bundle::open_checked(const std::filesystem::path& path,
                                                     const std::filesystem::path& policy_file) {
  const std::string context = path.string();
  Result<Policy> policy = Policy::load(policy_file);
  if (!policy.ok()) return policy.status();
  Result<BundleFiles> files = BundleFiles::open(path);
  if (!files.ok()) return files.status();
  Result<std::string> signer = accepted_signer(*files, *policy);
  if (!signer.ok()) return signer.status().with_context(context);
  Result<std::span<const std::byte>> text = checked_manifest(*files);
  if (!text.ok()) return text.status().with_context(context);
  Result<Manifest> manifest = parse_manifest(*text);
  if (!manifest.ok()) return manifest.status().with_context(context);
  if (Status status = policy->check_version(manifest->version); !status.ok()) {
    return status.with_context(context);
  }
  std::unique_ptr<Bundle> bundle(new Bundle(std::make_unique<BundleFiles>(*std::move(files)),
                                            *std::move(manifest), *std::move(signer)));
  if (Status status = bundle->check_files(); !status.ok()) {
    // The signed manifest says what every file contains.
    if (!bundle->signer_.empty()) status = Status(Code::kAltered, status.message());
    return status.with_context(context);
  }
  return bundle;
}

Bundle::Bundle(std::unique_ptr<BundleFiles> files, Manifest manifest, std::string signer)
    : files_(std::move(files)), manifest_(std::move(manifest)), signer_(std::move(signer)) {}

Bundle::~Bundle() = default;

Result<std::span<const std::byte>> Bundle::content(std::string_view path) const {
  return files_->content(path);
}

Status Bundle::check_files() const {
  std::set<std::string_view> listed = {kManifest, kManifestDigest, kSignature};
  for (const FileEntry& file : manifest_.files) {
    listed.insert(file.path);
    Result<std::span<const std::byte>> found = files_->content(file.path);
    if (!found.ok()) return found.status();
    if (found->size() != file.bytes) {
      return Status(Code::kCorrupt, file.path + " has " + std::to_string(found->size()) +
                                        " bytes, the manifest says " + std::to_string(file.bytes));
    }
    if (sha256(*found) != file.sha256) return not_as_recorded(file.path, "the manifest");
  }
  for (const std::string& path : files_->paths()) {
    if (!listed.contains(path)) {
      return Status(Code::kCorrupt, path + " is not listed in the manifest");
    }
  }
  return {};
}

Result<std::span<const std::byte>> Bundle::golden(const GoldenFile& file) const {
  Result<std::span<const std::byte>> found = files_->content(file.file);
  if (!found.ok()) return found;
  const TensorSpec& tensor = manifest_.tensors[file.tensor];
  if (found->size() != tensor.bytes) {
    return Status(Code::kCorrupt,
                  "'" + file.file + "' has " + std::to_string(found->size()) + " bytes, tensor '" +
                      tensor.name + "' has " + std::to_string(tensor.bytes),
                  kDamaged);
  }
  return found;
}

Result<std::vector<std::string>> Bundle::labels() const {
  std::vector<std::string> labels;
  if (manifest_.postprocess.labels.empty()) return labels;
  Result<std::span<const std::byte>> content = files_->content(manifest_.postprocess.labels);
  if (!content.ok()) return content.status();
  std::string_view text(reinterpret_cast<const char*>(content->data()), content->size());
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    labels.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return labels;
}

Result<Graph> Bundle::make_graph(const DeviceSet& devices) const {
  Graph graph;
  graph.tensors = manifest_.tensors;
  graph.inputs = manifest_.inputs;
  graph.outputs = manifest_.outputs;
  graph.kept = manifest_.read_at_the_end();
  StageLoader loader(devices);
  for (const StageSpec& spec : manifest_.stages) {
    Result<StageNode> node = loader.load(*this, spec);
    if (!node.ok()) return node.status().with_context("bundle '" + manifest_.name + "'");
    graph.nodes.push_back(*std::move(node));
  }
  return graph;
}

std::vector<Pipeline::StageThread> Bundle::board_threads() const {
  const bool told = std::ranges::any_of(manifest_.stages, [](const StageSpec& stage) {
    return !stage.cores.empty() || stage.realtime_priority != 0;
  });
  if (!told || manifest_.board_architecture != host_architecture()) return {};
  const auto usable = [available = Thread::cores()](int core) {
    return std::ranges::binary_search(available, core);
  };
  std::vector<Pipeline::StageThread> threads;
  for (const StageSpec& stage : manifest_.stages) {
    if (!std::ranges::all_of(stage.cores, usable)) return {};
    threads.push_back({.cores = stage.cores,
                       .realtime_priority = stage.realtime_priority,
                       .threads = stage.threads});
  }
  return threads;
}

bool Bundle::needs_device() const {
  return std::ranges::any_of(manifest_.stages,
                             [](const StageSpec& stage) { return stage.kind == "vta"; });
}

}  // namespace edgepipe
