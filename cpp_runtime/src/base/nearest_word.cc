#include "base/nearest_word.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace edgepipe {
namespace {

std::string_view without_dashes(std::string_view word) {
  return word.substr(std::min(word.find_first_not_of('-'), word.size()));
}

}  // namespace

std::size_t slips_between(std::string_view one, std::string_view other) {
  // Rows of the table of distances between the beginnings of both words, of which three are kept.
  std::vector<std::size_t> before(other.size() + 1);
  std::vector<std::size_t> last(other.size() + 1);
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= one.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= other.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (one[i - 1] == other[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      const bool exchanged =
          i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1];
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

std::string nearest_word(std::string_view word, std::span<const std::string> known) {
  const std::string_view wrong = without_dashes(word);
  std::string nearest;
  std::size_t least = 0;
  for (const std::string& name : known) {
    const std::string_view right = without_dashes(name);
    const std::size_t slips = slips_between(wrong, right);
    if (slips > std::max(wrong.size(), right.size()) / 3) continue;
    if (!nearest.empty() && slips >= least) continue;
    nearest = name;
    least = slips;
  }
  return nearest;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  const std::string nearest = nearest_word(word, known);
  return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

}  // namespace edgepipe
