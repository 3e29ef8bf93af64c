#include "tenon/jinja/string_methods.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "tenon/base/utf8.h"
#include "tenon/jinja/bytes.h"
#include "tenon/jinja/format.h"
#include "tenon/jinja/indexing.h"
#include "tenon/jinja/markup.h"
#include "tenon/jinja/operators.h"

/// Python's str methods. They work on code points, and every byte of the result keeps its origin.
///
/// StringMethod is one call: `run` is a switch over the number of the method, which the compiler of
/// the template has found, and each `do_` function binds its arguments with Python's errors.
/// Results that are a part of the string (strip, split, partition) are views made by part(),
/// without copying. Results that are made anew (replace, join, center) are written with put() and
/// take the origin of each piece, and letters with changed case take the origin of the letter.
/// Searches use unicode::find, which is linear for any input. The whole text is charged once for
/// the call, and four times its size if every character is looked at.
namespace tenon::jinja {
namespace {

using M = MethodId;

constexpr std::size_t kNowhere = std::string_view::npos;

bool has_point(std::string_view set, char32_t wanted) {
  for (std::size_t at = 0; at < set.size();) {
    if (unicode::next(set, at) == wanted) return true;
  }
  return false;
}

// Shrinks [begin, end): removes characters of `set` (null: white space) from its ends.
void strip(std::string_view text, const std::string_view* set, bool left, bool right,
           std::size_t& begin, std::size_t& end) {
  const auto goes = [set](char32_t point) {
    return set == nullptr ? unicode::is_space(point) : has_point(*set, point);
  };
  while (left && begin < end) {
    std::size_t next = begin;
    if (!goes(unicode::next(text, next))) break;
    begin = next;
  }
  while (right && begin < end) {
    std::size_t previous = end;
    if (!goes(unicode::previous(text, previous))) break;
    end = previous;
  }
}

/// One call of a method of `self`.
class StringMethod {
 public:
  StringMethod(Runtime& rt, const Value& self, M id, const Args& args)
      : rt_(rt), self_(self), id_(id), args_(args), text_(rt.text_of(self)), bytes_(text_.bytes) {
    rt_.charge(bytes_.size() / 4);
  }

  Value run() {
    switch (id_) {
      case M::strip:
        return do_strip(true, true);
      case M::lstrip:
        return do_strip(true, false);
      case M::rstrip:
        return do_strip(false, true);
      case M::split:
        return do_split(false);
      case M::rsplit:
        return do_split(true);
      case M::splitlines:
        return do_splitlines();
      case M::partition:
        return do_partition(false);
      case M::rpartition:
        return do_partition(true);
      case M::upper:
        // none() refuses arguments before the work begins.
        return none(), mapped_case(rt_, self_, unicode::Case::upper);
      case M::lower:
        return none(), mapped_case(rt_, self_, unicode::Case::lower);
      case M::casefold:
        return none(), mapped_case(rt_, self_, unicode::Case::fold);
      case M::title:
        return none(), do_title();
      case M::capitalize:
        return none(), do_capitalize();
      case M::swapcase:
        return none(), do_swapcase();
      case M::startswith:
        return do_affix(true);
      case M::endswith:
        return do_affix(false);
      case M::removeprefix:
        return do_remove(true);
      case M::removesuffix:
        return do_remove(false);
      case M::find:
        return do_find(false, false);
      case M::rfind:
        return do_find(true, false);
      case M::index:
        return do_find(false, true);
      case M::rindex:
        return do_find(true, true);
      case M::count:
        return do_count();
      case M::replace:
        return do_replace();
      case M::join:
        return do_join();
      case M::center:
      case M::ljust:
      case M::rjust:
        return do_justify();
      case M::zfill:
        return do_zfill();
      case M::expandtabs:
        return do_expandtabs();
      case M::format:
        return format_string(rt_, self_, args_, nullptr);
      case M::format_map: {
        positional_only(rt_, args_, "format_map", 1, 1);
        return format_string(rt_, self_, {}, &args_.items[0]);
      }
      case M::encode:
        return do_encode();
      case M::translate:
        return do_translate();
      case M::maketrans:
        return do_maketrans();
      case M::striptags:
        return without_tags(rt_, self_);
      case M::unescape:
        return none(), unescape_html(rt_, self_);
      default:
        return make_bool((none(), test()));
    }
  }

 private:
  void none() const { positional_only(rt_, args_, method_name(id_), 0, 0); }
  [[nodiscard]] std::string name() const { return std::string(method_name(id_)) + "()"; }

  // Argument `i` as text. Fails as Python does if it is something else.
  Text text_argument(std::uint32_t i) {
    if (!args_.items[i].is_string()) {
      rt_.type_error(name() + " argument " + std::to_string(i + 1) + " must be str, not " +
                     std::string(type_name(args_.items[i])));
    }
    return rt_.text_of(args_.items[i]);
  }
  // Part of the string as a view of its bytes; it stays safe (Markup) if the string is.
  Value part(std::size_t begin, std::size_t end) {
    Value value = rt_.substring(text_, begin, end);
    value.flags |= self_.flags & kMarkup;
    return value;
  }

  // Working on each character costs more than a search.
  void charge_characters() const { rt_.charge(bytes_.size() * 4); }

  // Without an argument (or with None) white space goes, else any of the argument's characters. A
  // string that loses nothing is returned itself.
  Value do_strip(bool left, bool right) {
    positional_only(rt_, args_, method_name(id_), 0, 1);
    std::size_t begin = 0;
    std::size_t end = bytes_.size();
    if (args_.size == 0 || args_.items[0].is(Tag::none)) {
      strip(bytes_, nullptr, left, right, begin, end);
    } else {
      if (!args_.items[0].is_string()) {
        rt_.type_error(std::string(method_name(id_)) + " arg must be None or str");
      }
      const std::string_view set = rt_.text_of(args_.items[0]).bytes;
      // Each character that goes was compared with the whole set.
      rt_.charge(bytes_.size() / 16 * (set.size() / 16 + 1));
      strip(bytes_, &set, left, right, begin, end);
    }
    rt_.charge((begin + bytes_.size() - end) * 4);
    if (begin == 0 && end == bytes_.size()) return self_;
    return part(begin, end);
  }

  // From the right the parts are found last first and turned round at the end.
  Value do_split(bool from_right) {
    Value bound[2];
    bind_arguments(rt_, args_, method_name(id_), {"sep", "maxsplit"}, 0, bound);
    std::int64_t most = bound[1].is(Tag::missing) ? -1 : index_of(rt_, bound[1]);
    if (most < 0) most = std::numeric_limits<std::int64_t>::max();
    Value list = rt_.make_list(4, self_.is_data());
    if (bound[0].is(Tag::missing) || bound[0].is(Tag::none)) {
      from_right ? split_space_right(list, most) : split_space(list, most);
    } else {
      if (!bound[0].is_string()) {
        rt_.type_error("must be str or None, not " + std::string(type_name(bound[0])));
      }
      const std::string_view separator = rt_.text_of(bound[0]).bytes;
      if (separator.empty()) rt_.value_error("empty separator");
      from_right ? split_at_right(list, separator, most) : split_at(list, separator, most);
    }
    if (from_right) std::reverse(list.list->items, list.list->items + list.list->size);
    return list;
  }
  // One part of a split: each is a value that the arena must hold, so each counts a step.
  void add(Value& list, std::size_t begin, std::size_t end) {
    rt_.step();
    rt_.append(list, part(begin, end));
  }
  // Searches are linear in all: each one begins behind the separator before it.
  void split_at(Value& list, std::string_view separator, std::int64_t most) {
    std::size_t begin = 0;
    for (; most > 0; --most) {
      const std::size_t at = unicode::find(bytes_, separator, begin);
      if (at == kNowhere) break;
      add(list, begin, at);
      begin = at + separator.size();
    }
    add(list, begin, bytes_.size());
  }
  void split_at_right(Value& list, std::string_view separator, std::int64_t most) {
    std::size_t end = bytes_.size();
    for (; most > 0; --most) {
      const std::size_t at = unicode::find_last(bytes_.substr(0, end), separator);
      if (at == kNowhere) break;
      add(list, at + separator.size(), end);
      end = at;
    }
    add(list, 0, end);
  }
  // Without a separator, runs of white space separate, and none at the ends makes an empty part;
  // what is left after `most` parts keeps its inner white space.
  void split_space(Value& list, std::int64_t most) {
    charge_characters();
    std::size_t at = 0;
    while (true) {
      std::size_t end = bytes_.size();
      strip(bytes_, nullptr, true, false, at, end);
      if (at >= bytes_.size()) return;
      if (most-- <= 0) {
        // Python strips the rest on the left only, which the loop has done; the end keeps its white
        // space.
        add(list, at, bytes_.size());
        return;
      }
      const std::size_t begin = at;
      std::size_t next = at;
      // next_is_space() moves `next` over one character; `at` follows while that was no white
      // space.
      while (next < bytes_.size() && !unicode::next_is_space(bytes_, next)) at = next;
      add(list, begin, at);
    }
  }
  void split_space_right(Value& list, std::int64_t most) {
    charge_characters();
    std::size_t at = bytes_.size();
    while (true) {
      std::size_t begin = 0;
      strip(bytes_, nullptr, false, true, begin, at);
      if (at == 0) return;
      if (most-- <= 0) {
        add(list, 0, at);
        return;
      }
      const std::size_t end = at;
      while (at > 0) {
        std::size_t previous = at;
        if (unicode::is_space(unicode::previous(bytes_, previous))) break;
        at = previous;
      }
      add(list, at, end);
    }
  }

  // Python's line ends, which are more than `\n`: vertical tab, form feed, the separators of ASCII
  // and Unicode, and `\r\n` as one.
  Value do_splitlines() {
    Value bound;
    bind_arguments(rt_, args_, "splitlines", {"keepends"}, 0, &bound);
    const bool keeps = !bound.is(Tag::missing) && rt_.truth(bound);
    charge_characters();
    Value list = rt_.make_list(4, self_.is_data());
    std::size_t begin = 0;
    for (std::size_t at = 0; at < bytes_.size();) {
      const std::size_t end = at;
      const char32_t point = unicode::next(bytes_, at);
      const bool ends = (point >= '\n' && point <= '\r') || (point >= 0x1C && point <= 0x1E) ||
                        point == 0x85 || point == 0x2028 || point == 0x2029;
      if (!ends) continue;
      if (point == '\r' && at < bytes_.size() && bytes_[at] == '\n') ++at;
      add(list, begin, keeps ? at : end);
      begin = at;
    }
    if (begin < bytes_.size()) add(list, begin, bytes_.size());
    return list;
  }

  Value do_partition(bool from_right) {
    positional_only(rt_, args_, method_name(id_), 1, 1);
    const Text separator = text_argument(0);
    if (separator.bytes.empty()) rt_.value_error("empty separator");
    const std::size_t at = from_right ? unicode::find_last(bytes_, separator.bytes)
                                      : unicode::find(bytes_, separator.bytes);
    Value tuple = rt_.make_list(3, self_.is_data(), Tag::tuple);
    // Not found: the string and two empty ones; rpartition has them in front.
    const Value empty = part(0, 0);
    if (at == kNowhere) {
      if (from_right) {
        rt_.append(tuple, empty);
        rt_.append(tuple, empty);
      }
      rt_.append(tuple, self_);
      if (!from_right) {
        rt_.append(tuple, empty);
        rt_.append(tuple, empty);
      }
      return tuple;
    }
    rt_.append(tuple, part(0, at));
    rt_.append(tuple, args_.items[0]);
    rt_.append(tuple, part(at + separator.bytes.size(), bytes_.size()));
    return tuple;
  }

  // Appends what `change` makes of each character, with the character's origin.
  template <class F>
  Value map_points(F change) {
    charge_characters();
    const TextBuffer::Mark mark = rt_.begin_text();
    // Characters of one origin are gathered in `piece` and appended when the origin changes. One
    // character can become several: ß in upper case is SS.
    std::string piece;
    std::uint32_t run = 0;
    bool is_data = text_.runs != nullptr ? text_.runs[0].is_data : text_.is_data;
    for (std::size_t at = 0; at < bytes_.size();) {
      if (text_.runs != nullptr && at >= text_.runs[run].end) {
        rt_.put(piece, is_data);
        piece.clear();
        is_data = text_.runs[++run].is_data;
      }
      const std::size_t begin = at;
      const char32_t point = unicode::next(bytes_, at);
      change(piece, point, begin);
    }
    rt_.put(piece, is_data);
    Value value = rt_.end_text(mark);
    value.flags |= self_.flags & kMarkup;
    return value;
  }

  // Python's rule for a capital sigma: it is final if a cased letter comes before it and none
  // after.
  void append_lower(std::string& out, char32_t point, std::size_t begin) const {
    if (point != 0x3A3) return unicode::append_mapped(out, point, unicode::Case::lower);
    bool is_final = false;
    for (std::size_t at = begin; at > 0;) {
      const char32_t before = unicode::previous(bytes_, at);
      if (unicode::is(before, unicode::kIgnorable)) continue;
      is_final = unicode::is(before, unicode::kCased);
      break;
    }
    // A capital sigma has two bytes in UTF-8.
    for (std::size_t at = begin + 2; is_final && at < bytes_.size();) {
      const char32_t after = unicode::next(bytes_, at);
      if (unicode::is(after, unicode::kIgnorable)) continue;
      is_final = !unicode::is(after, unicode::kCased);
      break;
    }
    utf8::append(out, is_final ? 0x3C2 : 0x3C3);
  }

 public:
  Value do_case(unicode::Case to) {
    return map_points([&](std::string& out, char32_t point, std::size_t begin) {
      if (to == unicode::Case::lower) {
        append_lower(out, point, begin);
      } else {
        unicode::append_mapped(out, point, to);
      }
    });
  }
  Value do_capitalize() {
    return map_points([&](std::string& out, char32_t point, std::size_t begin) {
      if (begin == 0) {
        unicode::append_mapped(out, point, unicode::Case::title);
      } else {
        append_lower(out, point, begin);
      }
    });
  }
  // A word begins behind anything without case, as Python has it: "they're" becomes "They'Re".
  Value do_title() {
    bool was_cased = false;
    return map_points([&](std::string& out, char32_t point, std::size_t begin) {
      if (was_cased) {
        append_lower(out, point, begin);
      } else {
        unicode::append_mapped(out, point, unicode::Case::title);
      }
      was_cased = unicode::is(point, unicode::kUpper | unicode::kLower | unicode::kTitle);
    });
  }
  /// jinja2's title filter: words begin after space and brackets, not after apostrophes.
  Value do_title_words() {
    bool starts = true;
    return map_points([&](std::string& out, char32_t point, std::size_t begin) {
      const bool separates = point == '-' || point == '(' || point == '{' || point == '[' ||
                             point == '<' || unicode::is_space(point);
      if (starts && !separates) {
        unicode::append_mapped(out, point, unicode::Case::upper);
      } else {
        append_lower(out, point, begin);
      }
      starts = separates;
    });
  }

 private:
  Value do_swapcase() {
    return map_points([&](std::string& out, char32_t point, std::size_t begin) {
      if (unicode::is(point, unicode::kUpper)) {
        append_lower(out, point, begin);
      } else if (unicode::is(point, unicode::kLower)) {
        unicode::append_mapped(out, point, unicode::Case::upper);
      } else {
        utf8::append(out, point);
      }
    });
  }

  // Reads the optional start and end arguments from number `first` on, as byte offsets. False if
  // start lies beyond the text's end.
  // A negative place counts from the end, and a place before the first character is the first.
  bool bounds(std::uint32_t first, std::size_t& begin, std::size_t& end) {
    begin = 0;
    end = bytes_.size();
    if (args_.size <= first) return true;
    rt_.charge(bytes_.size());
    const auto size = static_cast<std::int64_t>(unicode::length(bytes_));
    const auto place = [&](std::uint32_t i, std::int64_t otherwise) {
      if (args_.size <= i || args_.items[i].is(Tag::none)) return otherwise;
      const std::int64_t at = index_of(rt_, args_.items[i]);
      return at < 0 ? std::max<std::int64_t>(0, at + size) : at;
    };
    const std::int64_t start = place(first, 0);
    const std::int64_t stop = std::min(place(first + 1, size), size);
    if (start > size) return false;
    begin = unicode::offset(bytes_, static_cast<std::size_t>(start));
    end = unicode::offset(bytes_, static_cast<std::size_t>(stop));
    return true;
  }

  // The affix may be a tuple, of which any counts. Start and end count characters, as everywhere in
  // Python.
  Value do_affix(bool is_prefix) {
    positional_only(rt_, args_, method_name(id_), 1, 3);
    std::size_t begin = 0;
    std::size_t end = 0;
    const bool is_inside = bounds(1, begin, end);
    // A start behind the end, or behind the text, has no affix at all, not even the empty one.
    const auto has = [&](const Value& affix) {
      const std::string_view wanted = rt_.text_of(affix).bytes;
      if (!is_inside || begin > end) return false;
      const std::string_view text = bytes_.substr(begin, end - begin);
      return is_prefix ? text.starts_with(wanted) : text.ends_with(wanted);
    };
    const Value& affix = args_.items[0];
    if (affix.is_string()) return make_bool(has(affix));
    if (!affix.is(Tag::tuple)) {
      rt_.type_error(std::string(method_name(id_)) +
                     " first arg must be str or a tuple of str, not " +
                     std::string(type_name(affix)));
    }
    for (std::uint32_t i = 0; i < affix.list->size; ++i) {
      const Value& candidate = affix.list->items[i];
      if (!candidate.is_string()) {
        rt_.type_error("tuple for " + std::string(method_name(id_)) +
                       " must only contain str, not " + std::string(type_name(candidate)));
      }
      if (has(candidate)) return make_bool(true);
    }
    return make_bool(false);
  }

  // An empty suffix removes nothing, so the string itself is returned.
  Value do_remove(bool is_prefix) {
    positional_only(rt_, args_, method_name(id_), 1, 1);
    const std::string_view affix = text_argument(0).bytes;
    if (is_prefix) return bytes_.starts_with(affix) ? part(affix.size(), bytes_.size()) : self_;
    return !affix.empty() && bytes_.ends_with(affix) ? part(0, bytes_.size() - affix.size())
                                                     : self_;
  }

  // The search is by bytes and the answer in characters, so the characters before the place are
  // counted, and charged for.
  Value do_find(bool from_right, bool must_exist) {
    positional_only(rt_, args_, method_name(id_), 1, 3);
    const std::string_view wanted = text_argument(0).bytes;
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t at = kNowhere;
    if (bounds(1, begin, end) && begin <= end) {
      const std::string_view text = bytes_.substr(begin, end - begin);
      at = from_right ? unicode::find_last(text, wanted) : unicode::find(text, wanted);
    }
    if (at == kNowhere) {
      if (must_exist) rt_.value_error("substring not found");
      return make_int(-1);
    }
    rt_.charge(begin + at);
    return make_int(static_cast<std::int64_t>(unicode::length(bytes_.substr(0, begin + at))));
  }

  Value do_count() {
    positional_only(rt_, args_, "count", 1, 3);
    const std::string_view wanted = text_argument(0).bytes;
    std::size_t begin = 0;
    std::size_t end = 0;
    if (!bounds(1, begin, end) || begin > end) return make_int(0);
    const std::string_view text = bytes_.substr(begin, end - begin);
    // An empty string stands before each character and at the end.
    if (wanted.empty()) return make_int(static_cast<std::int64_t>(unicode::length(text)) + 1);
    std::int64_t count = 0;
    for (std::size_t at = unicode::find(text, wanted); at != kNowhere;
         at = unicode::find(text, wanted, at + wanted.size())) {
      rt_.step();
      ++count;
    }
    return make_int(count);
  }

  // An empty `old` stands before each character and at the end. Parts of the string and of the
  // replacement keep where they came from (template or data), which a new string of bytes would
  // lose.
  Value do_replace() {
    positional_only(rt_, args_, "replace", 2, 3);
    const std::string_view old = text_argument(0).bytes;
    const Text replacement = text_argument(1);
    std::int64_t most = args_.size > 2 ? index_of(rt_, args_.items[2]) : -1;
    if (most < 0) most = std::numeric_limits<std::int64_t>::max();
    if (!old.empty() && unicode::find(bytes_, old) == kNowhere) return self_;
    const TextBuffer::Mark mark = rt_.begin_text();
    std::size_t begin = 0;
    if (old.empty()) {
      // Here `begin` moves by one character, and what is left is written below.
      for (; most > 0; --most) {
        rt_.step();
        rt_.put_text(replacement);
        if (begin >= bytes_.size()) break;
        std::size_t next = begin;
        static_cast<void>(unicode::next(bytes_, next));
        rt_.put_text(text_, begin, next);
        begin = next;
      }
    }
    for (; !old.empty() && most > 0; --most) {
      const std::size_t at = unicode::find(bytes_, old, begin);
      if (at == kNowhere) break;
      rt_.step();
      rt_.put_text(text_, begin, at);
      rt_.put_text(replacement);
      begin = at + old.size();
    }
    rt_.put_text(text_, begin, bytes_.size());
    Value value = rt_.end_text(mark);
    value.flags |= self_.flags & kMarkup;
    return value;
  }

  // The string itself stands between the items, which must be strings. Each keeps its origin.
  Value do_join() {
    positional_only(rt_, args_, "join", 1, 1);
    const TextBuffer::Mark mark = rt_.begin_text();
    Iterator* walk = rt_.iterate(args_.items[0]);
    Value item;
    for (std::int64_t i = 0; rt_.next(*walk, item); ++i) {
      if (!item.is_string()) {
        rt_.type_error("sequence item " + std::to_string(i) + ": expected str instance, " +
                       std::string(type_name(item)) + " found");
      }
      if (i != 0) rt_.put_text(text_);
      rt_.put_string(item);
    }
    Value value = rt_.end_text(mark);
    value.flags |= self_.flags & kMarkup;
    return value;
  }

  // CPython's rule for the odd space of center(): it goes to the left if the width is odd, too.
  Value do_justify() {
    positional_only(rt_, args_, method_name(id_), 1, 2);
    const std::int64_t width = index_of(rt_, args_.items[0]);
    Text fill{" "};
    if (args_.size > 1) {
      fill = text_argument(1);
      if (unicode::length(fill.bytes) != 1) {
        rt_.type_error("The fill character must be exactly one character long");
      }
    }
    const std::int64_t missing = width - static_cast<std::int64_t>(unicode::length(bytes_));
    if (missing <= 0) return self_;
    const std::int64_t left = id_ == M::ljust   ? 0
                              : id_ == M::rjust ? missing
                                                : missing / 2 + (missing & width & 1);
    const bool of_data = fill.is_data_at(0);
    const TextBuffer::Mark mark = rt_.begin_text();
    rt_.put_repeated(fill.bytes, left, of_data);
    rt_.put_text(text_);
    rt_.put_repeated(fill.bytes, missing - left, of_data);
    return rt_.end_text(mark);
  }

  Value do_zfill() {
    positional_only(rt_, args_, "zfill", 1, 1);
    const std::int64_t missing =
        index_of(rt_, args_.items[0]) - static_cast<std::int64_t>(unicode::length(bytes_));
    if (missing <= 0) return self_;
    const bool is_signed = !bytes_.empty() && (bytes_[0] == '-' || bytes_[0] == '+');
    const TextBuffer::Mark mark = rt_.begin_text();
    // The zeros go behind the sign and count as the template's text.
    rt_.put_text(text_, 0, is_signed ? 1 : 0);
    rt_.put_repeated("0", missing, false);
    rt_.put_text(text_, is_signed ? 1 : 0, bytes_.size());
    return rt_.end_text(mark);
  }

  // Columns begin anew at each line end, and count characters. A size of 0 or less removes tabs.
  Value do_expandtabs() {
    Value bound;
    bind_arguments(rt_, args_, "expandtabs", {"tabsize"}, 0, &bound);
    const std::int64_t size = bound.is(Tag::missing) ? 8 : index_of(rt_, bound);
    charge_characters();
    const TextBuffer::Mark mark = rt_.begin_text();
    std::int64_t column = 0;
    for (std::size_t at = 0; at < bytes_.size();) {
      const std::size_t begin = at;
      const char32_t point = unicode::next(bytes_, at);
      if (point == '\t') {
        // Up to the next multiple of `size`.
        const std::int64_t spaces = size > 0 ? size - column % size : 0;
        rt_.put_repeated(" ", spaces, false);
        column += spaces;
      } else {
        rt_.put_text(text_, begin, at);
        column = point == '\n' || point == '\r' ? 0 : column + 1;
      }
    }
    return rt_.end_text(mark);
  }

  // Only what leaves the bytes as they are is supported; the value then counts as bytes.
  Value do_encode() {
    Value bound[2];
    bind_arguments(rt_, args_, "encode", {"encoding", "errors"}, 0, bound);
    const std::string encoding = encoding_name(rt_, bound[0], "encode");
    const bool is_ascii = encoding == "ascii" && unicode::is_ascii(bytes_);
    if (encoding != "utf8" && !is_ascii) fail_encoding(rt_);
    // Bytes have one origin: with mixed origin, they count as data as a whole.
    Value value = make_string(bytes_, self_.is_data() || text_.runs != nullptr);
    value.tag = Tag::bytes;
    return value;
  }

  // The table maps code points: to a string or a code point, which replaces the character, or to
  // None, which removes it. A character that the table lacks stays, also if the table is a list or
  // string.
  Value do_translate() {
    positional_only(rt_, args_, "translate", 1, 1);
    const Value& table = args_.items[0];
    charge_characters();
    const TextBuffer::Mark mark = rt_.begin_text();
    for (std::size_t at = 0; at < bytes_.size();) {
      const std::size_t begin = at;
      const char32_t point = unicode::next(bytes_, at);
      const Value key = make_int(point);
      const Value found = table.is_mapping() ? rt_.get(table, key) : item(rt_, table, key);
      if (found.is(Tag::missing) || found.is(Tag::undefined)) {
        rt_.put_text(text_, begin, at);
      } else if (found.is_string()) {
        rt_.put_string(found);
      } else if (found.is(Tag::integer)) {
        if (found.integer < 0 || found.integer >= 0x110000 ||
            (found.integer >= 0xD800 && found.integer < 0xE000)) {
          rt_.value_error("character mapping must be in range(0x110000)");
        }
        std::string character;
        utf8::append(character, static_cast<char32_t>(found.integer));
        rt_.put(character, found.is_data());
      } else if (!found.is(Tag::none)) {
        rt_.type_error("character mapping must return integer, None or str");
      }
    }
    return rt_.end_text(mark);
  }

  // A table for translate(): from a dict, whose keys may be characters, or from two strings of
  // equal length. Characters of a third string are removed.
  Value do_maketrans() {
    positional_only(rt_, args_, "maketrans", 1, 3);
    Value table = rt_.make_dict();
    const auto point_of = [&](const Text& text, std::size_t& at) {
      const bool is_data = text.is_data_at(at);
      return make_int(unicode::next(text.bytes, at), is_data);
    };
    if (args_.size == 1) {
      if (!args_.items[0].is_mapping()) {
        rt_.type_error("if you give only one argument to maketrans it must be a dict");
      }
      for (std::size_t i = 0; i < entry_count(args_.items[0]); ++i) {
        Value key;
        Value value;
        rt_.entry_at(args_.items[0], i, key, value);
        if (key.is_string()) {
          const Text text = rt_.text_of(key);
          std::size_t at = 0;
          if (unicode::length(text.bytes) != 1) {
            rt_.value_error("string keys in translate table must be of length 1");
          }
          key = point_of(text, at);
        }
        rt_.set(table, key, value);
      }
      return table;
    }
    const Text from = text_argument(0);
    const Text to = text_argument(1);
    if (unicode::length(from.bytes) != unicode::length(to.bytes)) {
      rt_.value_error("the first two maketrans arguments must have equal length");
    }
    for (std::size_t i = 0, j = 0; i < from.bytes.size();) {
      const Value key = point_of(from, i);
      rt_.set(table, key, point_of(to, j));
    }
    if (args_.size > 2) {
      const Text gone = text_argument(2);
      for (std::size_t i = 0; i < gone.bytes.size();)
        rt_.set(table, point_of(gone, i), none_value());
    }
    return table;
  }

  // The predicates (isalpha, isdigit, ...).
  [[nodiscard]] bool test() const {
    // Python's answers for an empty string: true for these two, false for all others.
    charge_characters();
    if (id_ == M::isascii) return unicode::is_ascii(bytes_);
    if (id_ == M::isprintable) return all(unicode::kPrintable);
    if (bytes_.empty()) return false;
    switch (id_) {
      case M::isalnum:
        return all(unicode::kAlpha | unicode::kDecimal | unicode::kDigit | unicode::kNumeric);
      case M::isalpha:
        return all(unicode::kAlpha);
      case M::isdecimal:
        return all(unicode::kDecimal);
      case M::isdigit:
        return all(unicode::kDigit);
      case M::isnumeric:
        return all(unicode::kNumeric);
      case M::isspace:
        return all(unicode::kSpace);
      case M::isidentifier: {
        std::size_t at = 0;
        const char32_t first = unicode::next(bytes_, at);
        return (first == '_' || unicode::is(first, unicode::kIdStart)) && all(unicode::kIdContinue);
      }
      case M::istitle:
        return is_title();
      default:
        return is_cased_as(id_ == M::isupper);
    }
  }
  [[nodiscard]] bool all(unsigned flags) const {
    for (std::size_t at = 0; at < bytes_.size();) {
      if (!unicode::is(unicode::next(bytes_, at), static_cast<std::uint16_t>(flags))) return false;
    }
    return true;
  }
  // At least one letter has the case, and none the other or title case (as the letter ǅ has).
  [[nodiscard]] bool is_cased_as(bool is_upper) const {
    const std::uint16_t wanted = is_upper ? unicode::kUpper : unicode::kLower;
    const auto other = static_cast<std::uint16_t>(unicode::kTitle |
                                                  (is_upper ? unicode::kLower : unicode::kUpper));
    bool found = false;
    for (std::size_t at = 0; at < bytes_.size();) {
      const char32_t point = unicode::next(bytes_, at);
      if (unicode::is(point, other)) return false;
      found |= unicode::is(point, wanted);
    }
    return found;
  }
  // Capitals stand only at the beginning of words, small letters only behind a cased one.
  [[nodiscard]] bool is_title() const {
    bool found = false;
    bool was_cased = false;
    for (std::size_t at = 0; at < bytes_.size();) {
      const char32_t point = unicode::next(bytes_, at);
      if (unicode::is(point, unicode::kUpper | unicode::kTitle)) {
        if (was_cased) return false;
        was_cased = found = true;
      } else if (unicode::is(point, unicode::kLower)) {
        if (!was_cased) return false;
        found = true;
      } else {
        was_cased = false;
      }
    }
    return found;
  }

  Runtime& rt_;
  const Value& self_;
  M id_;
  const Args& args_;
  Text text_;
  std::string_view bytes_;
};

}  // namespace

Value call_string_method(Runtime& rt, const Value& self, MethodId id, const Args& args) {
  return StringMethod(rt, self, id, args).run();
}

Value mapped_case(Runtime& rt, const Value& string, unicode::Case to) {
  // Nearly all text in templates whose case changes is ASCII. It needs no table, and its length
  // stays.
  if (string.is(Tag::string) && unicode::is_ascii(string.bytes())) {
    rt.charge(string.size / 4);
    char* bytes = static_cast<char*>(rt.arena().allocate(string.size));
    const bool is_upper = to == unicode::Case::upper;
    const char first = is_upper ? 'a' : 'A';
    for (std::uint32_t i = 0; i < string.size; ++i) {
      const char c = string.text[i];
      // In ASCII, the two cases of a letter differ in one bit.
      bytes[i] = c >= first && c <= first + 25 ? static_cast<char>(c ^ 0x20) : c;
    }
    Value value = string;
    value.text = bytes;
    return value;
  }
  return StringMethod(rt, string, MethodId::lower, {}).do_case(to);
}

Value title_words(Runtime& rt, const Value& string) {
  return StringMethod(rt, string, MethodId::title, {}).do_title_words();
}

Value capitalized(Runtime& rt, const Value& string) {
  return StringMethod(rt, string, MethodId::capitalize, {}).do_capitalize();
}

}  // namespace tenon::jinja
