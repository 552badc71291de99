// Addresses in texts that people read.
//
//   without_password("rtsp://user:secret@door/1")   // rtsp://door/1
//
// A name and a password in an address must reach no message, log or metric.
#pragma once

#include <string>

namespace edgepipe {

/// The address without a name and a password; any other text as it is.
std::string without_password(const std::string& url);

/// `text` with `by` wherever `part` is in it; unchanged if `part` is empty.
std::string replaced(std::string text, const std::string& part, const std::string& by);

}  // namespace edgepipe
