#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tenon/format/grammar_parameters.h"

/// Calls in the forms of the format itself. Forms that differ only in the text around the slots
/// share the rules of what is in the slots.
namespace tenon::format {

class CallGrammar : protected ParameterGrammar {
 public:
  using ParameterGrammar::ParameterGrammar;

 protected:
  /// The slots of calls, and the forms with these slots, which differ only in the text around them.
  struct Alike {
    Pattern slots;
    std::vector<const Syntax*> forms;
    NodeId filled = 0;
  };

  /// Calls that may follow each other: the text between two of them and after the last is the same.
  struct Family {
    std::vector<std::string> betweens;
    std::vector<std::string> ends;
    std::vector<Alike> alike;
  };

  /// Where calls stand: they begin the answer after the prompt's end, and must or may do so; or
  /// something comes before them.
  enum class Where : std::uint8_t { must_begin, may_begin, behind };

  /// Until the name has come, the arguments of all tools are read in parallel.
  static constexpr std::size_t kMostBehindArguments = 32;
  /// A call's pattern in three parts: up to the first slot, the slots with the text between them,
  /// and the rest.
  struct CallParts {
    std::string head;
    Pattern slots;
    std::string tail;
  };

  NodeId calls(Where where);
  std::vector<Family> families();
  void add_form(std::vector<Alike>& groups, const Syntax& form);
  static bool is_filled_alike(const Syntax& a, const Syntax& b);
  static bool names_behind_arguments(const Pattern& call);
  NodeId calls_of(Family& family, Where where);
  std::string space_before_end(const Syntax& form) const;
  static bool is_filled(const Piece& piece);
  static Pattern::const_iterator slots_end(const Pattern& call);
  static CallParts parts_of(const Pattern& call);
  NodeId call_slots(const Pattern& slots);
  NodeId filled(const Pattern& pattern);
};

}  // namespace tenon::format
