// An archive of arbitrary bytes is either refused, or all its files are inside it.
#include <cstdlib>

#include "bundle/archive.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::span<const std::byte> all = std::as_bytes(std::span(data, bytes));
  const auto archive = edgepipe::Archive::parse(all);
  if (!archive.ok()) return 0;
  for (const edgepipe::Archive::Entry& entry : archive->entries()) {
    if (entry.content.empty()) continue;
    const bool inside = entry.content.data() >= all.data() &&
                        entry.content.data() + entry.content.size() <= all.data() + all.size();
    if (!inside || !edgepipe::is_plain_path(entry.path)) std::abort();
    if (archive->find(entry.path) == nullptr) std::abort();
  }
  return 0;
}
