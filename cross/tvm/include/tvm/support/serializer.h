// Serializer<T>: how TVM's runtime writes values to a Stream; TVM's wheels lack this header.
//
// Numbers and plain structures are copied as they are (boards are little-endian, as the wire is),
// texts and lists after their length as a 64-bit number.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/string.h>
#include <tvm/support/io.h>

#include <string>
#include <type_traits>
#include <vector>

namespace tvm::support {

template <typename T>
struct Serializer {
  static_assert(std::is_trivially_copyable_v<T>, "expected a number or a plain structure");
  static void Write(Stream* stream, const T& value) {
    stream->Write(static_cast<const void*>(&value), sizeof value);
  }
  static bool Read(Stream* stream, T* value) {
    return stream->Read(static_cast<void*>(value), sizeof *value) == sizeof *value;
  }
};

template <>
struct Serializer<std::string> {
  static void Write(Stream* stream, const std::string& text) {
    stream->Write(static_cast<uint64_t>(text.size()));
    stream->Write(static_cast<const void*>(text.data()), text.size());
  }
  static bool Read(Stream* stream, std::string* text) {
    uint64_t size = 0;
    if (!stream->Read(&size) || size > text->max_size()) return false;
    text->resize(static_cast<size_t>(size));
    return stream->Read(static_cast<void*>(text->data()), text->size()) == text->size();
  }
};

template <>
struct Serializer<ffi::String> {
  static void Write(Stream* stream, const ffi::String& text) {
    Serializer<std::string>::Write(stream, text);
  }
  static bool Read(Stream* stream, ffi::String* text) {
    std::string read;
    if (!Serializer<std::string>::Read(stream, &read)) return false;
    *text = read;
    return true;
  }
};

/// std::vector and ffi::Array.
template <typename List, typename T>
struct ListSerializer {
  static void Write(Stream* stream, const List& list) {
    stream->Write(static_cast<uint64_t>(list.size()));
    for (const T& item : list) stream->Write(item);
  }
  static bool Read(Stream* stream, List* list) {
    uint64_t count = 0;
    if (!stream->Read(&count)) return false;
    list->clear();
    for (uint64_t index = 0; index < count; ++index) {
      T item{};
      if (!stream->Read(&item)) return false;
      list->push_back(item);
    }
    return true;
  }
};

template <typename T>
struct Serializer<std::vector<T>> : ListSerializer<std::vector<T>, T> {};

template <typename T>
struct Serializer<ffi::Array<T>> : ListSerializer<ffi::Array<T>, T> {};

}  // namespace tvm::support
