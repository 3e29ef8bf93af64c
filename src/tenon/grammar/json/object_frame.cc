#include "tenon/grammar/json/object_frame.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/grammar/json/object_members.h"
#include "tenon/regex/byte_set.h"

// Reads objects: braces, names, colons, commas and white space. Which members may come is the work
// of ObjectMembers, whose state is a part of Cell::local beside the phase.
//
// Known names are sorted by how they are written, so that the names still possible after some bytes
// are a range of that list (places_), and one byte narrows the range by two binary searches. A name
// may be written in several ways (with \u in lower and upper case); each is an entry of its own.
// Names that only a pattern knows are read beside them by an automaton.

namespace tenon::grammar {
namespace {

using regex::ByteSet;

// With \u for characters beyond ASCII, as json.dumps writes it, in lower and upper case.
std::vector<std::string> escaped_spellings(const ObjectMembers::Name& name) {
  std::string small = json::dumps(json::Value(name.name), {.ensure_ascii = true}).substr(1);
  if (small == name.spelled) return {};
  std::string large = small;
  for (std::size_t at = 0; at + 1 < large.size(); ++at) {
    if (large[at] != '\\') continue;
    if (large[++at] != 'u') continue;
    for (std::size_t end = at + 5; ++at < end;) {
      if (large[at] >= 'a') large[at] = static_cast<char>(large[at] - 'a' + 'A');
    }
    --at;
  }
  if (large == small) return {small};
  return {small, large};
}

class NamedObjectFrame final : public ObjectFrame {
 public:
  NamedObjectFrame(JsonContext& context, std::vector<ObjectKind> kinds, bool& needs_check)
      : context_(context), members_(context, std::move(kinds), needs_check) {
    const auto& names = members_.names();
    for (std::uint32_t i = 0; i < names.size(); ++i) {
      spellings_.push_back({names[i].spelled, i});
      if (context_.options.unicode_escapes != UnicodeEscapes::any) continue;
      for (std::string& text : escaped_spellings(names[i])) {
        spellings_.push_back({std::move(text), i});
      }
    }
    std::ranges::sort(spellings_, {}, &Spelling::text);
  }

  void enter(Machine& machine, FrameId self, CellId parent) override {
    machine.wait(self, pack({Phase::open, 0, 0}), parent);
  }
  [[nodiscard]] bool can_leave_out(const json::Value& object) const override {
    return members_.can_leave_out(object);
  }
  void enter_without(Machine& machine, FrameId self, CellId parent,
                     JsonContext::ObjectsId objects) override {
    if (const auto state = members_.without(objects)) {
      machine.wait(self, pack({Phase::open, *state, 0}), parent);
    }
  }
  [[nodiscard]] bool has_any_without(JsonContext::ObjectsId objects) override {
    return members_.without(objects).has_value();
  }

  void resume(Machine& machine, const Cell& cell) override {
    const Local at = unpack(cell.local);
    switch (at.phase) {
      case Phase::first:
        if (members_.may_close(at.state) || members_.may_add(at.state)) {
          machine.wait(cell.frame, pack({Phase::key_or_close, at.state, 0}), cell.parent);
        }
        break;
      case Phase::key:
        machine.wait(cell.frame, cell.local, cell.parent);
        break;
      case Phase::after_other:
        then(machine, cell, context_.gap, {Phase::colon_other, at.state, at.more});
        break;
      case Phase::colon:
      case Phase::colon_other:
        machine.wait(cell.frame, cell.local, cell.parent);
        break;
      case Phase::value:
        for (const auto& [term, after] : members_.ways(at.state, at.more)) {
          then(machine, cell, context_.value(term), {Phase::after, after, 0});
        }
        break;
      case Phase::value_other:
        for (const auto& [term, after] : members_.ways_of_other(at.state, at.more)) {
          then(machine, cell, context_.value(term), {Phase::after, after, kOther});
        }
        break;
      case Phase::after:
        then(machine, cell, context_.gap, {Phase::next, at.state, at.more});
        break;
      case Phase::next:
        if (context_.line_of_item) {
          if (members_.may_add(at.state)) machine.wait(cell.frame, cell.local, cell.parent);
          if (members_.may_close(at.state)) {
            then(machine, cell, context_.line_of_end, {Phase::close, at.state, 0});
          }
        } else if (members_.may_close(at.state) || members_.may_add(at.state)) {
          machine.wait(cell.frame, cell.local, cell.parent);
        }
        break;
      case Phase::close:
        machine.wait(cell.frame, cell.local, cell.parent);
        break;
      case Phase::open:
      case Phase::key_or_close:
      case Phase::name:
      case Phase::note:
        break;
    }
  }

  [[nodiscard]] ByteSet readable(const Cell& cell) const override {
    const Local at = unpack(cell.local);
    switch (at.phase) {
      case Phase::open:
        return set_of("{");
      case Phase::key_or_close:
        return set_of("\"}");
      case Phase::key:
        return set_of("\"");
      case Phase::colon:
      case Phase::colon_other:
        return set_of(":");
      case Phase::next:
        return set_of(",}");
      case Phase::close:
        return set_of("}");
      case Phase::name:
        return bytes_in(places_[at.more]);
      default:
        return ByteSet::all();
    }
  }

  void read(Machine& machine, const Cell& cell, std::uint8_t byte) override {
    const Local at = unpack(cell.local);
    switch (at.phase) {
      case Phase::open:
        begin(machine, cell, at.state);
        break;
      case Phase::close:
        machine.resume(cell.parent);
        break;
      case Phase::key_or_close:
        if (byte == '}' && members_.may_close(at.state)) machine.resume(cell.parent);
        [[fallthrough]];
      case Phase::key:
        if (byte == '"') begin_key(machine, cell, at.state);
        break;
      case Phase::name:
        read_name(machine, cell, at, byte);
        break;
      case Phase::colon:
        if (byte == ':')
          then(machine, cell, context_.after_colon, {Phase::value, at.state, at.more});
        break;
      case Phase::colon_other:
        if (byte == ':') {
          then(machine, cell, context_.after_colon, {Phase::value_other, at.state, at.more});
        }
        break;
      case Phase::next:
        if (byte == '}' && members_.may_close(at.state) && !context_.line_of_item) {
          machine.resume(cell.parent);
        }
        if (byte != ',' || !members_.may_add(at.state)) break;
        if (at.more == kOther && members_.tracks_others()) {
          machine.ask(cell.frame, pack({Phase::note, at.state, 0}), cell.parent);
        } else {
          then(machine, cell, context_.after_comma, {Phase::key, at.state, 0});
        }
        break;
      default:
        break;
    }
  }

  // Handles the member before the comma at the end of `text`, whose name is not among those that
  // the frame knows and must not come again.
  void answer(Machine& machine, const Cell& cell, std::string_view text) override {
    const auto name = context_.parsed(name_before(text));
    if (!name || name->if_string() == nullptr) return;
    const StateId id = members_.with_other_name(unpack(cell.local).state, *name->if_string());
    if (members_.may_add(id)) then(machine, cell, context_.after_comma, {Phase::key, id, 0});
  }

  [[nodiscard]] std::uint32_t least(Machine& machine) override {
    return 1 + members_.least_after(machine, ObjectMembers::kStart);
  }
  [[nodiscard]] std::uint32_t left(Machine& machine, const Cell& cell) override {
    const Local at = unpack(cell.local);
    const auto with_name = [&](std::uint32_t name) {
      return members_.least_with(machine, at.state, name, members_.names()[name].spelled.size());
    };
    const auto with_other = [&] {
      return machine.least(context_.value(members_.others()[at.more].term)) +
             members_.least_after(machine, at.state);
    };
    switch (at.phase) {
      case Phase::open:
        return 1 + members_.least_after(machine, at.state);
      case Phase::close:
        return 1;
      case Phase::name: {
        const Place place = places_[at.more];
        constexpr std::uint32_t kMaxNames = 64;
        std::uint32_t fewest = Machine::kFar;
        for (std::uint32_t i = place.from; i < std::min(place.to, place.from + kMaxNames); ++i) {
          const auto& [text, name] = spellings_[i];
          if (!members_.is_free(at.state, name)) continue;
          const auto rest = static_cast<std::uint32_t>(text.size() - place.depth);
          fewest = std::min(fewest, rest + with_name(name));
        }
        return fewest;
      }
      case Phase::colon:
        return with_name(at.more);
      case Phase::value:
        return with_name(at.more) - 1;
      case Phase::after_other:
      case Phase::colon_other:
        return 1 + with_other();
      case Phase::value_other:
        return with_other();
      default:
        return members_.least_after(machine, at.state);
    }
  }

  [[nodiscard]] std::size_t memory_bytes() const override {
    constexpr std::size_t kNodeBytes = 96;
    return members_.memory_bytes() + places_.size() * (sizeof(Place) + kNodeBytes);
  }

 private:
  using StateId = ObjectMembers::StateId;
  enum class Phase : std::uint8_t {
    open,          // waits for '{'
    first,         // a key or the end
    key_or_close,  // waits for '"' or '}'
    key,           // waits for '"'
    name,          // inside a declared name; `more` is the place
    after_other,   // another name has been read; `more` is its kind
    colon,         // waits for ':'; `more` is the name
    colon_other,
    value,  // the value of a name
    value_other,
    after,  // a value has been read
    next,   // waits for ',' or '}'
    note,   // asks for the name of the member that was just read
    close,  // waits for '}'
  };
  struct Local {
    Phase phase = Phase::open;
    StateId state = ObjectMembers::kStart;
    std::uint32_t more = 0;
  };
  static constexpr std::uint32_t kOther = 1;  // `more` after a value with an undeclared name
  static std::uint64_t pack(const Local& local) {
    return std::uint64_t{local.more} << 32U | std::uint64_t{local.state} << 4U |
           static_cast<std::uint64_t>(local.phase);
  }
  static Local unpack(std::uint64_t local) {
    return {static_cast<Phase>(local & 15U), static_cast<std::uint32_t>(local >> 4U) & 0xFFFFFFFU,
            static_cast<std::uint32_t>(local >> 32U)};
  }
  // One way to write a name, without the opening quote.
  struct Spelling {
    std::string text;
    std::uint32_t name;
  };
  // A place in a declared name: spellings [from, to) begin with the same `depth` bytes.
  struct Place {
    std::uint32_t from, to, depth;
    auto operator<=>(const Place&) const = default;
  };

  [[nodiscard]] bool may_add_spelling_in(StateId state, const Place& place) {
    if (spellings_.size() == members_.names().size())
      return members_.may_add_name_in(state, place.from, place.to);
    const auto spellings = std::span(spellings_).subspan(place.from, place.to - place.from);
    return std::ranges::any_of(spellings, [&](const Spelling& spelling) {
      return members_.may_add_name(state, spelling.name);
    });
  }
  void then(Machine& machine, const Cell& cell, FrameId frame, const Local& local) const {
    machine.enter(frame, machine.push(cell.frame, pack(local), cell.parent));
  }

  void begin(Machine& machine, const Cell& cell, StateId state) {
    if (!context_.line_of_item) {
      return then(machine, cell, context_.gap, {Phase::first, state, 0});
    }
    if (members_.may_close(state)) {
      machine.wait(cell.frame, pack({Phase::close, state, 0}), cell.parent);
    }
    if (members_.may_add(state))
      then(machine, cell, *context_.line_of_item, {Phase::key, state, 0});
  }

  // Behind the opening quote two ways go on side by side: declared names as places in the sorted
  // list, and each group of other names as an automaton that has no declared names.
  void begin_key(Machine& machine, const Cell& cell, StateId state) {
    wait_in_name(machine, cell, state, {0, static_cast<std::uint32_t>(spellings_.size()), 0});
    for (std::uint32_t i = 0; i < members_.others().size(); ++i) {
      const auto names = members_.other_names(state, i);
      if (!names) continue;
      then(machine, cell, context_.name(*names), {Phase::after_other, state, i});
    }
  }

  // The name, in quotes, of the member before the comma at the end of `text`.
  static std::string_view name_before(std::string_view text) {
    const auto opening = [&](std::size_t closing) {
      for (std::size_t at = closing; at-- > 0;) {
        if (text[at] != '"') continue;
        std::size_t backslashes = 0;
        while (backslashes < at && text[at - backslashes - 1] == '\\') ++backslashes;
        if (backslashes % 2 == 0) return at;
      }
      return std::size_t{0};
    };
    std::size_t depth = 0;
    for (std::size_t at = text.size() - 1; at-- > 0;) {
      switch (text[at]) {
        case '"':
          at = opening(at);
          break;
        case ']':
        case '}':
          ++depth;
          break;
        case '[':
        case '{':
          --depth;
          break;
        case ':': {
          if (depth > 0) break;
          const std::size_t closing = text.rfind('"', at);
          const std::size_t from = opening(closing);
          return text.substr(from, closing + 1 - from);
        }
        default:
          break;
      }
    }
    return {};
  }

  // The bytes that may come next in some name of the place.
  [[nodiscard]] ByteSet bytes_in(const Place& place) const {
    const auto byte_of = [&](const Spelling& spelling) {
      return static_cast<std::uint8_t>(spelling.text[place.depth]);
    };
    ByteSet set;
    const auto end = spellings_.begin() + place.to;
    for (auto spelling = spellings_.begin() + place.from; spelling != end;) {
      const std::uint8_t byte = byte_of(*spelling);
      set.insert(byte);
      spelling = std::ranges::upper_bound(spelling, end, byte, {}, byte_of);
    }
    return set;
  }

  void wait_in_name(Machine& machine, const Cell& cell, StateId state, const Place& place) {
    if (!may_add_spelling_in(state, place)) return;
    const auto [id, is_new] =
        place_ids_.try_emplace(place, static_cast<std::uint32_t>(places_.size()));
    if (is_new) places_.push_back(place);
    machine.wait(cell.frame, pack({Phase::name, state, id->second}), cell.parent);
  }

  // One byte narrows the range of names by two binary searches.
  void read_name(Machine& machine, const Cell& cell, const Local& at, std::uint8_t byte) {
    const Place place = places_[at.more];
    // Each spelling ends with the closing quote, which is not escaped, so none is a prefix of
    // another.
    const auto byte_at = [&](const Spelling& spelling) {
      return static_cast<std::uint8_t>(spelling.text[place.depth]);
    };
    const auto begin = spellings_.begin();
    const auto range =
        std::ranges::equal_range(begin + place.from, begin + place.to, byte, {}, byte_at);
    if (range.empty()) return;
    const auto from = static_cast<std::uint32_t>(range.begin() - begin);
    const auto to = static_cast<std::uint32_t>(range.end() - begin);
    if (to - from == 1 && spellings_[from].text.size() == place.depth + 1) {
      const std::uint32_t name = spellings_[from].name;
      if (members_.may_add_name(at.state, name)) {
        then(machine, cell, context_.gap, {Phase::colon, at.state, name});
      }
      return;
    }
    wait_in_name(machine, cell, at.state, {from, to, place.depth + 1});
  }

  JsonContext& context_;
  ObjectMembers members_;
  std::vector<Spelling> spellings_;  // by text; those of the names alone are in the same order
  std::vector<Place> places_;
  std::map<Place, std::uint32_t> place_ids_;
};

}  // namespace

std::unique_ptr<ObjectFrame> make_object_frame(JsonContext& context, std::vector<ObjectKind> kinds,
                                               bool& needs_check) {
  return std::make_unique<NamedObjectFrame>(context, std::move(kinds), needs_check);
}

}  // namespace tenon::grammar
