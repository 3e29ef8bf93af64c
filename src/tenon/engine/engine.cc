#include "tenon/engine/engine.h"

namespace tenon::engine {

std::string_view holding_name(Holding holding) {
  switch (holding) {
    case Holding::none:
      return "none";
    case Holding::masks:
      return "masks";
    case Holding::gbnf:
      return "gbnf";
    case Holding::ebnf:
      return "ebnf";
  }
  return "";
}

EngineStats& EngineStats::operator+=(const EngineStats& other) {
  decodes += other.decodes;
  decode_nanoseconds += other.decode_nanoseconds;
  prompt_tokens += other.prompt_tokens;
  cached_tokens += other.cached_tokens;
  generated_tokens += other.generated_tokens;
  forced_tokens += other.forced_tokens;
  guessed_tokens += other.guessed_tokens;
  accepted_guesses += other.accepted_guesses;
  preemptions += other.preemptions;
  masks += other.masks;
  mask_nanoseconds += other.mask_nanoseconds;
  mask_wait_nanoseconds += other.mask_wait_nanoseconds;
  running += other.running;
  waiting += other.waiting;
  unfinished += other.unfinished;
  return *this;
}

}  // namespace tenon::engine
