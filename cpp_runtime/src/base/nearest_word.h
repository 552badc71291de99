// The known word for which another is probably a slip, for errors.
//
//   error += did_you_mean("--slot", names);  // "; did you mean --slots?"
//
// Any thread may call these functions. They allocate memory, so they are not for the frame path.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace edgepipe {

/// Returns how many characters must be added, removed, replaced or exchanged with their neighbour
/// to turn `one` into `other`.
std::size_t slips_between(std::string_view one, std::string_view other);

/// Returns the word of `known` with the fewest slips from `word`, the first of several, or "" if
/// more than a third of the longer word's characters would be slips. Leading dashes do not count.
std::string nearest_word(std::string_view word, std::span<const std::string> known);

/// Returns a question for the end of an error's text, or "" if no known word is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

}  // namespace edgepipe
