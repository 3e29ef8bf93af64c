#include "tenon/engine/engine.h"

namespace tenon::engine {
namespace {

// `other` is the later one: what is true now comes from it, and counters are summed.
void add(UpstreamStats& to, const UpstreamStats& other) {
  to.is_up = other.is_up;
  to.trouble = other.trouble;
  to.running += other.running;
  to.answered += other.answered;
  to.refused += other.refused;
  to.failed += other.failed;
  to.cancelled += other.cancelled;
  to.first_tokens += other.first_tokens;
  to.first_token_nanoseconds += other.first_token_nanoseconds;
}

}  // namespace

std::string_view constrained_by_name(ConstrainedBy constrained_by) {
  switch (constrained_by) {
    case ConstrainedBy::none:
      return "none";
    case ConstrainedBy::masks:
      return "masks";
    case ConstrainedBy::gbnf:
      return "gbnf";
    case ConstrainedBy::ebnf:
      return "ebnf";
    case ConstrainedBy::json_schema:
      return "json_schema";
  }
  return "";
}

std::string_view takes_name(Takes takes) {
  switch (takes) {
    case Takes::tokens:
      return "tokens";
    case Takes::text:
      return "text";
    case Takes::messages:
      return "messages";
  }
  return "";
}

// A model that was loaded again goes on with the counters of its earlier engines, so that they
// never fall.
EngineStats& EngineStats::operator+=(const EngineStats& other) {
  decodes += other.decodes;
  decode_nanoseconds += other.decode_nanoseconds;
  prompt_tokens += other.prompt_tokens;
  cached_tokens += other.cached_tokens;
  generated_tokens += other.generated_tokens;
  forced_tokens += other.forced_tokens;
  closed_loops += other.closed_loops;
  guessed_tokens += other.guessed_tokens;
  accepted_guesses += other.accepted_guesses;
  preemptions += other.preemptions;
  masks += other.masks;
  mask_nanoseconds += other.mask_nanoseconds;
  mask_wait_nanoseconds += other.mask_wait_nanoseconds;
  running += other.running;
  waiting += other.waiting;
  unfinished += other.unfinished;
  for (const UpstreamStats& server : other.upstreams) {
    const auto same = std::ranges::find(upstreams, server.url, &UpstreamStats::url);
    if (same == upstreams.end()) {
      upstreams.push_back(server);
    } else {
      add(*same, server);
    }
  }
  return *this;
}

// An engine that is gone has no runs; what it has counted stays.
void EngineStats::come_to_rest() {
  running = waiting = unfinished = 0;
  for (UpstreamStats& server : upstreams) {
    server.is_up = false;
    server.running = 0;
  }
}

}  // namespace tenon::engine
