#include "tenon/chat/model_registry.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <list>
#include <mutex>
#include <utility>

#include "tenon/base/log.h"

namespace tenon::chat {
namespace {

bool is_named(const std::string& own, const std::vector<std::string>& aliases,
              std::string_view name) {
  return own == name || std::ranges::find(aliases, name) != aliases.end();
}

// One model. Whoever holds a lease counts in `uses`, which outlives model and registry.
struct Slot {
  explicit Slot(ModelSource of) : source(std::move(of)) {}

  ModelSource source;
  // Under the registry's mutex:
  std::shared_ptr<Model> model;  // null: it is not loaded
  std::shared_ptr<std::atomic<int>> uses = std::make_shared<std::atomic<int>>(0);
  std::uint64_t last_use = 0;
  std::uint64_t loads = 0;
  std::uint64_t unloads = 0;
  engine::EngineStats past_stats;  // of engines that are gone
  GrammarCounts past_grammars;

  [[nodiscard]] bool is_named(std::string_view name) const {
    return chat::is_named(source.name, source.aliases, name);
  }
  [[nodiscard]] bool is_busy() const {
    return uses->load(std::memory_order_acquire) > 0 || model->engine().stats().unfinished > 0;
  }
  [[nodiscard]] std::shared_ptr<Model> lease() const {
    uses->fetch_add(1, std::memory_order_acq_rel);
    // Not an owner: an engine must not be destroyed by whoever happens to come last, which may be
    // its own thread.
    return {model.get(), [uses = uses](Model*) { uses->fetch_sub(1, std::memory_order_acq_rel); }};
  }
  [[nodiscard]] engine::EngineStats stats() const {
    engine::EngineStats all = past_stats;
    if (model != nullptr) all += model->engine().stats();
    return all;
  }
  [[nodiscard]] GrammarCounts grammars() const {
    GrammarCounts all = past_grammars;
    if (model == nullptr) return all;
    const GrammarCounts now = model->grammar_counts();
    return {.compilations = all.compilations + now.compilations,
            .cache_hits = all.cache_hits + now.cache_hits,
            .cache_bytes = now.cache_bytes};
  }
};

std::string mebibytes(std::uint64_t bytes) {
  constexpr std::uint64_t kMebibyte = 1U << 20U;
  return std::to_string((bytes + kMebibyte - 1) / kMebibyte) + " MiB";
}

Failure<Refusal> refuse(Errc code, std::string message, std::string stable_code) {
  return Failure<Refusal>(
      {.error = {code, std::move(message)}, .param = {}, .code = std::move(stable_code)});
}

}  // namespace

struct ModelRegistry::Impl {
  explicit Impl(Options chosen) : options(chosen) {}

  [[nodiscard]] Slot* find(std::string_view name) {
    const auto slot =
        std::ranges::find_if(slots, [&](const Slot& each) { return each.is_named(name); });
    return slot == slots.end() ? nullptr : &*slot;
  }
  Status add(Slot slot) {
    std::vector<std::string> names = slot.source.aliases;
    names.push_back(slot.source.name);
    for (const std::string& name : names) {
      if (name.empty()) return Unexpected(Error{Errc::invalid, "a model needs a name"});
      if (find(name) == nullptr) continue;
      return Unexpected(Error{Errc::invalid, "the model name '" + name + "' is given twice"});
    }
    slots.push_back(std::move(slot));
    return {};
  }

  std::shared_ptr<Model> lease_of(Slot& slot) {
    const std::lock_guard lock(mutex);
    if (slot.model == nullptr) return nullptr;
    slot.last_use = ++clock;
    return slot.lease();
  }
  Result<std::vector<std::shared_ptr<Model>>, Refusal> make_room(const Slot& slot);
  std::shared_ptr<Model> take(Slot& slot);

  const Options options;
  std::list<Slot> slots;  // the list itself is only read once it is filled
  std::mutex loading;     // held while a model is loaded or unloaded; taken before `mutex`
  std::mutex mutex;       // guards what the slots say
  std::uint64_t clock = 0;
};

// Under the mutex: out of the slot, to be destroyed without it.
std::shared_ptr<Model> ModelRegistry::Impl::take(Slot& slot) {
  slot.past_stats = slot.stats();
  slot.past_stats.running = slot.past_stats.waiting = slot.past_stats.unfinished = 0;
  slot.past_grammars = slot.grammars();
  slot.past_grammars.cache_bytes = 0;
  ++slot.unloads;
  log::info("model '" + slot.source.name + "' is unloaded: others need its " +
            mebibytes(slot.source.memory_bytes));
  return std::move(slot.model);
}

// The models that make room for `slot`; refused, with all left where they are, where those that are
// not busy do not take enough.
Result<std::vector<std::shared_ptr<Model>>, Refusal> ModelRegistry::Impl::make_room(
    const Slot& wanted) {
  std::vector<std::shared_ptr<Model>> gone;
  const std::lock_guard lock(mutex);
  std::uint64_t held = 0;  // by models that are loaded
  std::uint64_t busy = 0;  // by those of them that cannot be unloaded
  std::string busy_names;
  std::vector<Slot*> idle;
  for (Slot& slot : slots) {
    const std::uint64_t bytes = slot.source.memory_bytes;
    if (slot.model == nullptr || bytes == 0) continue;
    held += bytes;
    if (!slot.is_busy()) {
      idle.push_back(&slot);
      continue;
    }
    busy += bytes;
    busy_names += (busy_names.empty() ? "'" : ", '") + slot.source.name + "'";
  }
  const std::uint64_t needed = wanted.source.memory_bytes;
  if (options.max_bytes == 0 || held + needed <= options.max_bytes) return gone;
  if (busy + needed > options.max_bytes) {
    return refuse(Errc::limit_exceeded,
                  "model '" + wanted.source.name + "' needs " + mebibytes(needed) +
                      ", but of the " + mebibytes(options.max_bytes) + " for models " +
                      mebibytes(busy) + " are in use by " + busy_names,
                  "engine_busy");
  }
  std::ranges::sort(idle, {}, &Slot::last_use);
  for (Slot* const slot : idle) {
    if (held + needed <= options.max_bytes) break;
    held -= slot->source.memory_bytes;
    gone.push_back(take(*slot));
  }
  return gone;
}

ModelRegistry::ModelRegistry(Options options) : impl_(std::make_unique<Impl>(options)) {}
ModelRegistry::ModelRegistry(ModelRegistry&&) noexcept = default;
ModelRegistry& ModelRegistry::operator=(ModelRegistry&&) noexcept = default;
ModelRegistry::~ModelRegistry() = default;

Status ModelRegistry::add(ModelSource source) {
  const std::uint64_t most = impl_->options.max_bytes;
  if (most > 0 && source.memory_bytes > most) {
    return Unexpected(Error{Errc::limit_exceeded,
                            "model '" + source.name + "' needs " + mebibytes(source.memory_bytes) +
                                ", but all models together may take " + mebibytes(most)});
  }
  return impl_->add(Slot(std::move(source)));
}

Status ModelRegistry::add(std::shared_ptr<Model> model) {
  Slot slot({.name = model->name(), .aliases = model->aliases()});
  slot.model = std::move(model);
  slot.loads = 1;
  return impl_->add(std::move(slot));
}

bool ModelRegistry::Entry::is_named(std::string_view one) const {
  return chat::is_named(name, aliases, one);
}

bool ModelRegistry::has(std::string_view name) const {
  return impl_->find(name) != nullptr;
}

std::shared_ptr<Model> ModelRegistry::loaded(std::string_view name) const {
  Slot* const slot = impl_->find(name);
  return slot == nullptr ? nullptr : impl_->lease_of(*slot);
}

Result<std::shared_ptr<Model>, Refusal> ModelRegistry::use(std::string_view name) const {
  Slot& slot = *impl_->find(name);
  if (auto model = impl_->lease_of(slot)) return model;
  const std::lock_guard loading(impl_->loading);
  if (auto model = impl_->lease_of(slot)) return model;  // somebody has loaded it meanwhile
  auto gone = impl_->make_room(slot);
  if (!gone) return Failure<Refusal>(std::move(gone.error()));
  gone->clear();  // before the other one comes
  Expected<std::shared_ptr<Model>> model;
  try {
    model = slot.source.load();
  } catch (const std::exception& error) {  // no memory
    model = Unexpected(Error{Errc::limit_exceeded, error.what()});
  }
  if (!model) {
    log::error(model.error().message);
    return refuse(model.error().code, model.error().message, "engine_error");
  }
  const std::lock_guard lock(impl_->mutex);
  slot.model = *std::move(model);
  slot.last_use = ++impl_->clock;
  ++slot.loads;
  return slot.lease();
}

std::vector<ModelRegistry::Entry> ModelRegistry::entries() const {
  std::vector<Entry> entries;
  const std::lock_guard lock(impl_->mutex);
  for (const Slot& slot : impl_->slots) {
    entries.push_back({.name = slot.source.name,
                       .aliases = slot.source.aliases,
                       .model = slot.model == nullptr ? nullptr : slot.lease(),
                       .memory_bytes = slot.source.memory_bytes,
                       .loads = slot.loads,
                       .unloads = slot.unloads,
                       .stats = slot.stats(),
                       .grammars = slot.grammars()});
  }
  return entries;
}

}  // namespace tenon::chat
