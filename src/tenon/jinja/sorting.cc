#include "tenon/jinja/sorting.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "tenon/jinja/indexing.h"
#include "tenon/jinja/numbers.h"
#include "tenon/jinja/string_methods.h"

namespace tenon::jinja {

// A path is a list of names and numbers: "a.b.0" -> ["a", "b", 0].
Value make_path(Values& values, const Value& attribute) {
  Value path = values.make_list(1);
  if (!attribute.is_string()) {
    values.append(path, attribute);
    return path;
  }
  const std::string_view names = values.text_of(attribute).bytes;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find('.', begin), names.size());
    const std::string_view name = names.substr(begin, end - begin);
    const bool is_number =
        !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
    // More digits are cut off: no list has such an index.
    if (is_number) values.charge_decimals(std::min(name.size(), kMaxIntegerDigits) / 9);
    values.append(
        path, is_number ? make_big(values.arena(),
                                   BigInt::from_decimal(name.substr(0, kMaxIntegerDigits)), false)
                        : make_string(name));
    begin = end + 1;
    values.step();
  }
  return path;
}

// jinja2's make_attrgetter: each part is looked up as `value[part]`, which tries attributes second.
Value follow(Runtime& rt, const Value& path, Value value, const Value& fallback) {
  for (std::uint32_t i = 0; i < path.list->size; ++i) {
    rt.step();
    value = item(rt, value, path.list->items[i]);
    if (value.is(Tag::undefined) && !fallback.is(Tag::missing)) value = fallback;
  }
  return value;
}

Value ignore_case(Runtime& rt, const Value& value) {
  return value.is_string() ? mapped_case(rt, value, unicode::Case::lower) : value;
}

// A stable merge sort from the bottom up. Comparisons count steps and fail by throwing, and a
// comparison that is not an order (NaN) does no harm here, as it could in std::sort.
void sort_values(Values& values, Value* items, const Value* keys, std::uint32_t size,
                 bool is_reversed) {
  if (size < 2) return;
  auto* order = values.arena().array<std::uint32_t>(size);
  auto* merged = values.arena().array<std::uint32_t>(size);
  for (std::uint32_t i = 0; i < size; ++i) order[i] = i;
  // `order` and `merged` change places after each round of runs twice as long.
  for (std::uint64_t width = 1; width < size; width *= 2) {
    for (std::uint64_t begin = 0; begin < size; begin += 2 * width) {
      const auto middle = static_cast<std::uint32_t>(std::min<std::uint64_t>(begin + width, size));
      const auto end = static_cast<std::uint32_t>(std::min<std::uint64_t>(begin + 2 * width, size));
      auto left = static_cast<std::uint32_t>(begin);
      std::uint32_t right = middle;
      for (auto at = static_cast<std::uint32_t>(begin); at < end; ++at) {
        values.step();
        // Python reverses twice, so equal items keep their order in both directions.
        const bool takes_right =
            left >= middle ||
            (right < end && (is_reversed ? values.less(keys[order[left]], keys[order[right]])
                                         : values.less(keys[order[right]], keys[order[left]])));
        merged[at] = takes_right ? order[right++] : order[left++];
      }
    }
    std::swap(order, merged);
  }
  auto* sorted = values.arena().array<Value>(size);
  for (std::uint32_t i = 0; i < size; ++i) sorted[i] = items[order[i]];
  std::copy_n(sorted, size, items);
}

}  // namespace tenon::jinja
