// JsonReader: reads one JSON object field by field and remembers the first error.
//
//   JsonReader reader(object, "manifest.json");
//   tensor.name = reader.text("name");
//   tensor.bytes = reader.whole("bytes");
//   if (!reader.status().ok()) return reader.status();
//   // kCorrupt: "manifest.json: tensors[3].bytes: found \"12\", expected a whole number"
//
// After an error every further read returns an empty value, so the code needs no checks in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "edgepipe/status.h"

namespace edgepipe {

/// Parses a JSON text that contains an object; kCorrupt names `where`.
Result<nlohmann::json> parse_json_object(std::span<const std::byte> text, const std::string& where);

class JsonReader {
 public:
  /// `value` is borrowed; every message starts with `where`.
  JsonReader(const nlohmann::json& value, std::string where);
  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

  [[nodiscard]] const Status& status() const { return *status_; }

  [[nodiscard]] bool has(const char* key) const { return value_.contains(key); }

  std::string text(const char* key);
  std::uint64_t whole(const char* key);
  double number(const char* key);

  /// A whole number that can count bytes or elements in this process's memory.
  std::size_t size(const char* key);

  std::vector<std::string> texts(const char* key);
  std::vector<std::int64_t> integers(const char* key);

  /// Calls `read` with a reader of the object at `key`.
  void object(const char* key, const std::function<void(JsonReader&)>& read);

  /// Calls `read` with a reader of each object of the array at `key`.
  void objects(const char* key, const std::function<void(JsonReader&)>& read);

  /// The value at `key`, of any kind; if it is missing, an error and a null value.
  const nlohmann::json& value(const char* key);

  /// Records an error about `key`, unless there already is one.
  void fail(const char* key, const std::string& text);

 private:
  JsonReader(const nlohmann::json& value, std::string where, Status* status);

  const nlohmann::json& expect(const char* key, bool (nlohmann::json::*is_kind)() const noexcept,
                               const char* expected);

  const nlohmann::json& value_;
  std::string where_;
  Status own_status_;
  Status* status_;  // of the outermost reader, shared by all readers below it
};

}  // namespace edgepipe
