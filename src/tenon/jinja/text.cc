#include "tenon/jinja/text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tenon/jinja/unicode.h"

/// The output buffer, and strings that know where their bytes came from. Most strings have one
/// origin and are a pointer and a length. Sums are ropes, whose parts are joined only when the
/// bytes are needed. Strings of mixed origin carry their runs.
namespace tenon::jinja {

void TextBuffer::put(std::string_view bytes, bool is_data) {
  if (bytes.empty()) return;
  // Written so that it cannot overflow.
  if (bytes.size() >
      options().max_output_bytes - std::min(out_.size(), options().max_output_bytes)) {
    fail_limit("the template writes more than " + std::to_string(options().max_output_bytes) +
               " bytes");
  }
  count(bytes.size() / 64);
  out_.append(bytes);
  const auto end = static_cast<std::uint32_t>(out_.size());
  // Neighbouring bytes of one origin are one run, but a run does not go on into an inner text.
  if (runs_.size() > floor_ && runs_.back().is_data == is_data) {
    runs_.back().end = end;
  } else {
    runs_.push_back({end, is_data});
  }
}

void TextBuffer::put_repeated(std::string_view bytes, std::int64_t times, bool is_data) {
  if (times <= 0 || bytes.empty()) return;
  // Checked before the loop, which would otherwise run for long before put() refuses.
  if (static_cast<std::uint64_t>(times) > options().max_output_bytes / bytes.size()) {
    fail_limit("the template writes more than " + std::to_string(options().max_output_bytes) +
               " bytes");
  }
  for (std::int64_t i = 0; i < times; ++i) put(bytes, is_data);
}

void TextBuffer::put_text(const Text& text, std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  if (text.runs == nullptr) {
    put(text.bytes.substr(begin, end - begin), text.is_data);
    return;
  }
  // The run that holds byte `begin`; runs are ordered by their ends.
  const Run* run =
      std::upper_bound(text.runs, text.runs + text.run_count, begin,
                       [](std::size_t at, const Run& candidate) { return at < candidate.end; });
  while (begin < end) {
    const std::size_t stop = std::min<std::size_t>(run->end, end);
    put(text.bytes.substr(begin, stop - begin), run->is_data);
    begin = stop;
    ++run;
  }
}

void TextBuffer::put_string(const Value& string) {
  if (string.is(Tag::string)) {
    put(string.bytes(), string.is_data());
    return;
  }
  const Rope& rope = *string.rope;
  if (rope.text != nullptr) {
    put_text(text_of(string));
    return;
  }
  // Visits the leaves from left to right without joining them; a rope may be as deep as it has
  // parts.
  std::vector<Value>& rest = parts_;
  rest.assign({rope.right, rope.left});  // a stack: the left one is on top
  while (!rest.empty()) {
    const Value part = rest.back();
    rest.pop_back();
    step();
    if (part.is(Tag::string)) {
      put(part.bytes(), part.is_data());
    } else if (part.rope->text != nullptr) {
      put_text(text_of(part));
    } else {
      rest.push_back(part.rope->right);
      rest.push_back(part.rope->left);
    }
  }
}

TextBuffer::Mark TextBuffer::begin_text() {
  const Mark mark{out_.size(), runs_.size(), floor_};
  // put() begins a new run, so that the inner text's runs can be cut off again.
  floor_ = runs_.size();
  return mark;
}

void TextBuffer::drop_text(const Mark& mark) {
  out_.resize(mark.size);
  runs_.resize(mark.runs);
  floor_ = mark.floor;
}

Value TextBuffer::end_text(const Mark& mark) {
  const std::string_view bytes = arena().copy(std::string_view(out_).substr(mark.size));
  const std::size_t count = runs_.size() - mark.runs;
  // No run at all (an empty text) counts as the template's.
  Value value = make_string(bytes, count == 1 && runs_[mark.runs].is_data);
  if (count > 1) {
    auto* runs = arena().array<Run>(count);
    for (std::size_t i = 0; i < count; ++i) {
      // The ends count from the beginning of the whole buffer, those of a value from its own.
      runs[i] = runs_[mark.runs + i];
      runs[i].end -= static_cast<std::uint32_t>(mark.size);
    }
    value.tag = Tag::rope;
    value.flags = kMixed;
    value.rope = arena().make<Rope>(Value{}, Value{}, bytes.data(), static_cast<const Run*>(runs),
                                    static_cast<std::uint32_t>(count));
  }
  drop_text(mark);
  return value;
}

Rendered TextBuffer::take_rendered() {
  Rendered rendered;
  rendered.text = std::move(out_);
  rendered.spans.reserve(runs_.size());
  std::size_t begin = 0;
  for (const Run& run : runs_) {
    rendered.spans.push_back({begin, run.end, run.is_data});
    begin = run.end;
  }
  return rendered;
}

Text TextBuffer::text_of(const Value& string) {
  if (string.is(Tag::string)) return {string.bytes(), nullptr, 0, string.is_data()};
  Rope& rope = *string.rope;
  // Only once: the rope keeps its bytes.
  if (rope.text == nullptr) flatten(rope, string.size);
  return {{rope.text, string.size}, rope.runs, rope.run_count, string.is_data()};
}

// The buffer is filled from the end: most ropes grew on their left, so the stack stays short.
void TextBuffer::flatten(Rope& rope, std::uint32_t size) {
  charge(size);
  char* const text = static_cast<char*>(arena().allocate(size));
  std::uint32_t at = size;
  std::vector<Run> runs;  // backwards
  const auto prepend = [&](std::string_view bytes, bool is_data) {
    if (bytes.empty()) return;
    // `at` is the end of a new run, since the text grows to the left.
    if (runs.empty() || runs.back().is_data != is_data) runs.push_back({at, is_data});
    at -= static_cast<std::uint32_t>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), text + at);
  };
  std::vector<Value> rest{rope.left, rope.right};
  while (!rest.empty()) {
    const Value part = rest.back();
    rest.pop_back();
    step();
    if (part.is(Tag::string)) {
      prepend(part.bytes(), part.is_data());
      continue;
    }
    const Rope& inner = *part.rope;
    if (inner.text == nullptr) {
      rest.push_back(inner.left);
      rest.push_back(inner.right);
    } else if (inner.runs == nullptr) {
      prepend({inner.text, part.size}, part.is_data());
    } else {
      for (std::uint32_t i = inner.run_count; i-- > 0;) {
        const std::uint32_t begin = i == 0 ? 0 : inner.runs[i - 1].end;
        prepend({inner.text + begin, inner.runs[i].end - begin}, inner.runs[i].is_data);
      }
    }
  }
  if (runs.size() > 1) {
    auto* kept = arena().array<Run>(runs.size());
    std::reverse_copy(runs.begin(), runs.end(), kept);
    rope.runs = kept;
    rope.run_count = static_cast<std::uint32_t>(runs.size());
  }
  rope.text = text;
}

Value TextBuffer::substring(const Text& text, std::size_t begin, std::size_t end) {
  if (begin >= end) return make_string({}, text.runs == nullptr && text.is_data);
  const std::string_view bytes = text.bytes.substr(begin, end - begin);
  if (text.runs == nullptr) return make_string(bytes, text.is_data);
  const Run* const last = text.runs + text.run_count;
  const auto ends_behind = [](std::size_t at, const Run& run) { return at < run.end; };
  const Run* const first = std::upper_bound(text.runs, last, begin, ends_behind);
  // All of it lies in one run, so it needs no runs of its own.
  if (first->end >= end) return make_string(bytes, first->is_data);
  const Run* const final = std::upper_bound(first, last, end - 1, ends_behind);
  const auto count = static_cast<std::size_t>(final - first) + 1;
  auto* runs = arena().array<Run>(count);
  for (std::size_t i = 0; i < count; ++i) {
    runs[i] = first[i];
    runs[i].end = static_cast<std::uint32_t>(std::min<std::size_t>(first[i].end, end) - begin);
  }
  Value value = make_string(bytes);
  value.tag = Tag::rope;
  value.flags = kMixed;
  value.rope = arena().make<Rope>(Value{}, Value{}, bytes.data(), static_cast<const Run*>(runs),
                                  static_cast<std::uint32_t>(count));
  return value;
}

Value TextBuffer::string_copy(std::string_view bytes, bool is_data) {
  return make_string(arena().copy(bytes), is_data);
}

Value TextBuffer::concat(const Value& left, const Value& right) {
  // An empty string has no bytes, so its origin does not matter.
  if (left.size == 0) return right;
  if (right.size == 0) return left;
  const std::uint64_t size = std::uint64_t{left.size} + right.size;
  if (size > options().max_allocated_bytes || size > ~0U) {
    fail_limit("a string grows longer than " + std::to_string(options().max_allocated_bytes) +
               " bytes");
  }
  const bool is_mixed =
      left.is_data() != right.is_data() || ((left.flags | right.flags) & kMixed) != 0;
  constexpr std::uint64_t kCopied = 128;  // up to this size a copy costs less than a rope
  if (!is_mixed && size <= kCopied && left.is(Tag::string) && right.is(Tag::string)) {
    char* bytes = static_cast<char*>(arena().allocate(size));
    std::copy_n(left.text, left.size, bytes);
    std::copy_n(right.text, right.size, bytes + left.size);
    return make_string({bytes, size}, left.is_data());
  }
  Value value;
  value.tag = Tag::rope;
  // Which bytes are whose is found when the rope becomes flat.
  value.flags = is_mixed ? kMixed : left.is_data() ? kData : 0;
  value.size = static_cast<std::uint32_t>(size);
  value.rope = arena().make<Rope>(left, right, nullptr, nullptr, 0U);
  return value;
}

std::size_t TextBuffer::length_of_text(const Value& string) {
  const Text text = text_of(string);
  charge(text.bytes.size());
  return unicode::length(text.bytes);
}

}  // namespace tenon::jinja
