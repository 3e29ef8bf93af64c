#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/grammar/json/json_frames.h"
#include "tenon/grammar/json/number_scanner.h"
#include "tenon/grammar/json/object_kinds.h"
#include "tenon/grammar/json/shape.h"
#include "tenon/grammar/json/shapes.h"
#include "tenon/grammar/json/term.h"
#include "tenon/grammar/machine/int_map.h"
#include "tenon/grammar/machine/machine.h"
#include "tenon/json/value.h"
#include "tenon/regex/byte_set.h"
#include "tenon/regex/expr.h"

/// What the frames that read JSON values share, and the frames by which they know one another. How
/// they work together is told in json_frames.cc. Not for use outside this folder.
namespace tenon::grammar {

/// When small things are compared in a row, a step of the machine takes as long as so many of them.
constexpr std::size_t kComparedPerStep = 8;

/// The bytes of a literal as a set.
constexpr regex::ByteSet set_of(std::string_view bytes) {
  regex::ByteSet set;
  for (const char byte : bytes) set.insert(static_cast<std::uint8_t>(byte));
  return set;
}

/// The part of a term's values that a frame reads.
enum class Part : std::uint8_t { all, scalars, containers };  // scalars without numbers

class ObjectFrame;
class CheckFrame;

/// The state that all frames of one schema share. One thread at a time, like its machine.
class JsonContext : public std::enable_shared_from_this<JsonContext> {
 public:
  JsonContext(Machine& machine, std::shared_ptr<const schema::Schema> schema,
              const JsonOptions& options);
  JsonContext(const JsonContext&) = delete;
  JsonContext& operator=(const JsonContext&) = delete;
  ~JsonContext() = default;

  [[nodiscard]] FrameId value(Term term, Part part = Part::all);
  [[nodiscard]] FrameId string(Term term);
  /// Reads a name, after its opening quote.
  [[nodiscard]] FrameId name(const OtherNames& names);
  [[nodiscard]] std::vector<FrameId> choices(Term term, Part part);
  /// The term of all values equal to `value`, which need not live on.
  [[nodiscard]] Term term_of(const json::Value& value);

  /// A list of objects; equal lists have equal numbers.
  using ObjectsId = std::uint32_t;
  static constexpr ObjectsId kNoObjects = 0;
  [[nodiscard]] ObjectsId id_of(const Objects& objects);
  [[nodiscard]] const Objects& objects(ObjectsId id) const { return *objects_[id]; }
  /// Whether the frames that read the objects of the term can leave these out, so that items that
  /// must differ need no frames of their own.
  [[nodiscard]] bool can_leave_out(Term term, ObjectsId objects);
  /// Enters the arrays and objects of the term, without these objects.
  void enter_container(Term term, ObjectsId but, CellId parent);
  [[nodiscard]] bool has_object(Term term, ObjectsId but);

  /// A list of numbers; each entry refers to the one before it.
  using Numbers = std::uint32_t;
  static constexpr Numbers kNoNumbers = 0;
  [[nodiscard]] Numbers with(Numbers numbers, const json::Value& number);
  [[nodiscard]] std::vector<const json::Value*> values_of(Numbers numbers) const;
  /// Enters a number of the term that is not in the list `but`.
  void enter_number(Term term, Numbers but, CellId parent);
  [[nodiscard]] bool has_number(Term term, Numbers but);

  /// The memory that grows with the texts that are read.
  [[nodiscard]] std::size_t memory_bytes() const;

  Machine& machine;
  JsonOptions options;
  Shapes shapes;
  FrameId gap = 0;  // for all places of whitespace except those after ',' and ':'
  FrameId after_comma = 0;
  FrameId after_colon = 0;
  // If lines are indented: a new line before the first item, and one before the closing bracket.
  std::optional<FrameId> line_of_item;
  FrameId line_of_end = 0;
  /// The number of open arrays and objects in `cell`.
  [[nodiscard]] std::uint64_t depth(CellId cell) const;
  /// Parses a part of the text as a whole value. Counts as work.
  [[nodiscard]] std::optional<json::Value> parsed(std::string_view text);

 private:
  // The reader for the numbers of a set, before any numbers are excluded.
  struct NumberReader {
    std::shared_ptr<NumberScanner> scanner;
    FrameId lexeme = 0;
  };
  // The numbers of one of the shapes of a term.
  struct NumbersOfTerm {
    NumberReader reader;
    bool needs_check = false;
    NumberScanner::Less of_term = NumberScanner::kWhole;
    IntMap less;                               // list of numbers -> the numbers that remain
    std::map<Scanner::State, FrameId> checks;  // if a check is needed, by start state
  };
  // The frames that read the arrays and objects of a term.
  struct Container {
    FrameId frame;
    ObjectFrame* object;  // that reads it, or null
    CheckFrame* check;    // that enters the other, or null
  };
  struct LastNumber {
    Numbers before = kNoNumbers;
    json::Value value;
  };

  [[nodiscard]] StringOptions string_options();
  NumberReader reader_of(NumberSet set);
  std::vector<NumbersOfTerm>& numbers_of(Term term);
  const std::vector<Container>& containers_of(Term term);
  Scanner::State start_of(NumbersOfTerm& numbers, Numbers but);

  std::map<NumberSet, NumberReader> number_readers_;  // by set, without exclusions
  std::map<Term, std::vector<NumbersOfTerm>> numbers_of_terms_;
  std::vector<LastNumber> numbers_{1};  // the first list is empty
  std::map<std::pair<Numbers, std::string>, Numbers> numbers_ids_;
  FrameId quote_ = 0;
  std::map<Term, std::vector<Container>> containers_of_terms_;
  std::map<Objects, ObjectsId> objects_ids_{{{}, kNoObjects}};
  std::vector<const Objects*> objects_{&objects_ids_.begin()->first};  // keys of objects_ids_
  std::size_t bytes_of_objects_ = 0;
  std::set<FrameId> containers_;  // arrays and objects; each open one has one cell on the stack
  std::map<std::pair<Term, Part>, FrameId> values_;
  std::map<std::pair<regex::Expr, std::vector<std::string>>, FrameId> names_;
  // By hash; the nodes keep their addresses.
  std::unordered_multimap<std::uint64_t, json::Value> kept_;
};

/// Reads the arrays of the shape.
[[nodiscard]] std::unique_ptr<Frame> make_array_frame(JsonContext& context,
                                                      const ArrayShape& shape);

}  // namespace tenon::grammar
