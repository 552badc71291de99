#include "base/json_reader.h"

#include <algorithm>
#include <utility>

namespace edgepipe {
namespace {

using nlohmann::json;

const json kNull;

/// The value as text, short enough for one line. Nested values are not printed, because a malicious
/// file could nest them deeper than the stack allows.
std::string excerpt(const json& value) {
  if (value.is_structured()) return std::string("an ") + value.type_name();
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  return text;
}

}  // namespace

Result<json> parse_json_object(std::span<const std::byte> text, const std::string& where) {
  const auto* start = reinterpret_cast<const char*>(text.data());
  json value = json::parse(start, start + text.size(), nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) {
    return Status(Code::kCorrupt, where + ": not a JSON object");
  }
  return value;
}

JsonReader::JsonReader(const json& value, std::string where)
    : value_(value), where_(std::move(where) + ": "), status_(&own_status_) {
  if (!value_.is_object()) *status_ = Status(Code::kCorrupt, where_ + "not a JSON object");
}

JsonReader::JsonReader(const json& value, std::string where, Status* status)
    : value_(value), where_(std::move(where)), status_(status) {}

void JsonReader::fail(const char* key, const std::string& text) {
  if (status_->ok()) *status_ = Status(Code::kCorrupt, where_ + key + ": " + text);
}

const json& JsonReader::value(const char* key) {
  if (!status_->ok()) return kNull;
  const auto found = value_.find(key);
  if (found == value_.end()) {
    fail(key, "is missing");
    return kNull;
  }
  return *found;
}

const json& JsonReader::expect(const char* key, bool (json::*is_kind)() const noexcept,
                               const char* expected) {
  const json& found = value(key);
  if (!status_->ok()) return kNull;
  if (!(found.*is_kind)()) {
    fail(key, "found " + excerpt(found) + ", expected " + expected);
    return kNull;
  }
  return found;
}

std::string JsonReader::text(const char* key) {
  const json& found = expect(key, &json::is_string, "a string");
  return found.is_string() ? found.get<std::string>() : std::string();
}

std::uint64_t JsonReader::whole(const char* key) {
  const json& found = expect(key, &json::is_number_unsigned, "a whole number");
  return found.is_number_unsigned() ? found.get<std::uint64_t>() : 0;
}

std::size_t JsonReader::size(const char* key) {
  const std::uint64_t found = whole(key);
  const auto size = static_cast<std::size_t>(found);
  if (size == found) return size;
  fail(key, "found " + std::to_string(found) + ", more than this machine can address");
  return 0;
}

double JsonReader::number(const char* key) {
  const json& found = expect(key, &json::is_number, "a number");
  return found.is_number() ? found.get<double>() : 0;
}

std::vector<std::string> JsonReader::texts(const char* key) {
  std::vector<std::string> texts;
  for (const json& item : expect(key, &json::is_array, "an array of strings")) {
    if (!item.is_string()) {
      fail(key, "found " + excerpt(item) + ", expected a string");
      return {};
    }
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

std::vector<std::int64_t> JsonReader::integers(const char* key) {
  std::vector<std::int64_t> integers;
  for (const json& item : expect(key, &json::is_array, "an array of integers")) {
    if (!item.is_number_integer()) {
      fail(key, "found " + excerpt(item) + ", expected an integer");
      return {};
    }
    if (item.is_number_unsigned() && item.get<std::uint64_t>() > INT64_MAX) {
      fail(key, "found " + excerpt(item) + ", expected an integer of 64 bits");
      return {};
    }
    integers.push_back(item.get<std::int64_t>());
  }
  return integers;
}

void JsonReader::object(const char* key, const std::function<void(JsonReader&)>& read) {
  const json& found = expect(key, &json::is_object, "an object");
  if (!found.is_object()) return;
  JsonReader reader(found, where_ + key + ".", status_);
  read(reader);
}

void JsonReader::objects(const char* key, const std::function<void(JsonReader&)>& read) {
  const json& found = expect(key, &json::is_array, "an array of objects");
  if (!found.is_array()) return;
  for (std::size_t index = 0; index < found.size() && status_->ok(); ++index) {
    const std::string where = where_ + key + "[" + std::to_string(index) + "]";
    if (!found[index].is_object()) {
      *status_ = Status(Code::kCorrupt,
                        where + ": found " + excerpt(found[index]) + ", expected an object");
      return;
    }
    JsonReader reader(found[index], where + ".", status_);
    read(reader);
  }
}

}  // namespace edgepipe
