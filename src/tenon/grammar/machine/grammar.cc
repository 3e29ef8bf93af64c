#include "tenon/grammar/machine/grammar.h"

#include <algorithm>
#include <utility>

namespace tenon::grammar {

Expected<std::shared_ptr<Grammar>> Grammar::make(Build build, std::shared_ptr<VocabIndex> index,
                                                 const Limits& limits) {
  std::shared_ptr<Grammar> grammar(new Grammar(std::move(build), std::move(index), limits));
  const std::lock_guard lock(grammar->mutex_);
  if (Status begun = grammar->begin(); !begun) return Unexpected(begun.error());
  return grammar;
}

Expected<std::shared_ptr<Grammar>> Grammar::make(std::unique_ptr<Machine> machine, FrameId root,
                                                 std::shared_ptr<VocabIndex> index) {
  std::shared_ptr<Grammar> grammar(
      new Grammar(nullptr, std::move(index), {.machine = machine->limits()}));
  const std::lock_guard lock(grammar->mutex_);
  if (Status begun = grammar->begin(std::move(machine), root); !begun) {
    return Unexpected(begun.error());
  }
  return grammar;
}

std::vector<Relaxed> Grammar::relaxed() const {
  const std::lock_guard lock(mutex_);
  return run_->machine->relaxed();
}

std::size_t Grammar::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes();
}

Status Grammar::begin(std::unique_ptr<Machine> machine, FrameId root) {
  auto run = std::make_unique<Run>(std::move(machine), index_);
  // The answer to what frames ask before the first byte, if they do.
  run->start = run->machine->answer(run->machine->start(root), "");
  if (run->machine->error()) return Unexpected(*run->machine->error());
  if (run->start == 0) {
    return Unexpected(Error{Errc::unsatisfiable, "nothing at all fits the grammar"});
  }
  run_ = std::move(run);
  // The limit is for what texts add; the frames themselves are there from the beginning.
  full_at_ = bytes() + limits_.max_bytes;
  is_fresh_ = true;
  ++epoch_;
  return {};
}

Status Grammar::begin() {
  auto machine = std::make_unique<Machine>(limits_.machine);
  const auto root = build_(*machine);
  if (!root) return Unexpected(root.error());
  return begin(std::move(machine), *root);
}

// Linear: refuse() keeps eight at most.
const Error* Grammar::refusal_after(std::string_view read) const {
  const auto known = std::ranges::find(refusals_, read, &Refusal::read);
  return known == refusals_.end() ? nullptr : &known->error;
}

void Grammar::refuse(std::string read, const Error& error) {
  constexpr std::size_t kMostRefusals = 8;
  // The fraction at which this mask failed, and not the one for the masks after it.
  const std::uint64_t fraction = mask_fraction();
  halvings_ = std::min(halvings_ + 1, kMostHalvings);
  filled_ = 0;
  if (read.size() > kLongestRefused) return;
  if (refusals_.size() == kMostRefusals) refusals_.erase(refusals_.begin());
  refusals_.push_back({std::move(read), error, fraction});
}

// What few steps refused may be tried again when there are more.
void Grammar::count_filled_mask() {
  constexpr unsigned kMasksPerHalving = 256;
  if (halvings_ == 0 || ++filled_ < kMasksPerHalving) return;
  filled_ = 0;
  --halvings_;
  std::erase_if(refusals_,
                [&](const Refusal& refusal) { return refusal.fraction > mask_fraction(); });
}

// A request for many answers, each on another way, would otherwise pay for many masks that fail. As
// others use the grammar too, masks that are filled give the steps back: a text that costs much is
// then paid for by many that do not.
std::uint64_t Grammar::mask_fraction() const {
  return std::uint64_t{1} << halvings_;
}

std::size_t Grammar::bytes() const {
  return sizeof(*this) + run_->machine->memory_bytes() + run_->masks.memory_bytes();
}

// Counting asks every frame, so it is done only now and then.
bool Grammar::is_full() {
  constexpr std::uint32_t kUsesBetweenLooks = 64;
  if (!build_ || until_look_-- != 0) return false;
  until_look_ = kUsesBetweenLooks;
  return bytes() > full_at_;
}

// One text may need more than the limit, up to the limits of the machine: without room to grow it
// would be read again and again.
void Grammar::make_room() {
  full_at_ = std::max(full_at_, 2 * bytes());
}

}  // namespace tenon::grammar
