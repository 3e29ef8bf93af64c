#include "tenon/chat/model_registry.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <utility>

#include "tenon/base/log.h"
#include "tenon/format/format.h"

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
  bool is_loading = false;       // its memory is taken already
  bool is_leaving = false;       // it is being destroyed, and still has its memory
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
  [[nodiscard]] std::optional<ModelRegistry::Loaded> loaded() const {
    if (model == nullptr) return std::nullopt;
    const format::Format* const format = model->format();
    return ModelRegistry::Loaded{
        .engine = model->engine().capabilities(),
        .format = format == nullptr ? "" : format::info(*format).name,
        .is_parallel = format != nullptr && format::info(*format).parallel};
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

  // Under the mutex. Null: it is not loaded.
  std::shared_ptr<Model> lease_of(Slot& slot) {
    if (slot.model == nullptr) return nullptr;
    slot.last_use = ++clock;
    return slot.lease();
  }
  struct Room {
    bool is_there = false;  // once `in_the_way` are gone; else when what is on its way has come
    std::vector<Slot*> in_the_way;
  };
  Result<Room, Refusal> find_room(const Slot& wanted);
  void unload(const std::vector<Slot*>& in_the_way);
  std::shared_ptr<Model> take(Slot& slot);
  Result<std::shared_ptr<Model>, Refusal> exchange(Slot& slot, const std::vector<Slot*>& in_the_way,
                                                   std::unique_lock<std::mutex>& lock);
  Expected<std::shared_ptr<Model>> load(const Slot& slot);

  const Options options;
  std::list<Slot> slots;            // the list itself is only read once it is filled
  std::mutex mutex;                 // guards what the slots say; not held while one loads or leaves
  std::condition_variable changed;  // a model was loaded or unloaded, or could not be
  std::uint64_t clock = 0;
};

// Under the mutex: out of the slot, to be destroyed without it.
std::shared_ptr<Model> ModelRegistry::Impl::take(Slot& slot) {
  slot.past_stats = slot.stats();
  slot.past_stats.running = slot.past_stats.waiting = slot.past_stats.unfinished = 0;
  slot.past_grammars = slot.grammars();
  slot.past_grammars.cache_bytes = 0;
  ++slot.unloads;
  return std::move(slot.model);
}

// Under the mutex. Refused, with all left where they are, where those that are not busy do not take
// enough, nor those that come and go at this time.
Result<ModelRegistry::Impl::Room, Refusal> ModelRegistry::Impl::find_room(const Slot& wanted) {
  std::uint64_t held = 0;   // by all models that are here, come or go
  std::uint64_t going = 0;  // by those that come or go: they may be idle or away soon
  std::uint64_t busy = 0;   // by those that cannot be unloaded
  std::string busy_names;
  Room room;
  for (Slot& slot : slots) {
    const std::uint64_t bytes = slot.source.memory_bytes;
    const bool is_going = slot.is_loading || slot.is_leaving;
    if ((slot.model == nullptr && !is_going) || bytes == 0) continue;
    held += bytes;
    if (is_going) {
      going += bytes;
    } else if (!slot.is_busy()) {
      room.in_the_way.push_back(&slot);
    } else {
      busy += bytes;
      busy_names += (busy_names.empty() ? "'" : ", '") + slot.source.name + "'";
    }
  }
  const std::uint64_t needed = wanted.source.memory_bytes;
  const auto fits = [&](std::uint64_t others) {
    return options.max_bytes == 0 || needed == 0 || others + needed <= options.max_bytes;
  };
  if (!fits(busy)) {
    return refuse(Errc::limit_exceeded,
                  "model '" + wanted.source.name + "' needs " + mebibytes(needed) +
                      ", but of the " + mebibytes(options.max_bytes) + " for models " +
                      mebibytes(busy) + " are in use by " + busy_names,
                  "engine_busy");
  }
  if (!fits(busy + going)) return Room{};
  room.is_there = true;
  std::ranges::sort(room.in_the_way, {}, &Slot::last_use);
  auto last = room.in_the_way.begin();
  while (!fits(held)) held -= (*last++)->source.memory_bytes;
  room.in_the_way.erase(last, room.in_the_way.end());
  return room;
}

// Without the mutex: engines wait for their threads.
void ModelRegistry::Impl::unload(const std::vector<Slot*>& in_the_way) {
  for (Slot* const slot : in_the_way) {
    std::unique_lock lock(mutex);
    std::shared_ptr<Model> gone = take(*slot);
    lock.unlock();
    gone.reset();
    lock.lock();
    slot->is_leaving = false;
  }
  if (!in_the_way.empty()) changed.notify_all();
  for (const Slot* const slot : in_the_way) {
    log::info("model '" + slot->source.name + "' is unloaded: others need its " +
              mebibytes(slot->source.memory_bytes));
  }
}

// Loads the model of `slot` in the place of those that are in its way. `lock` is that of the mutex.
Result<std::shared_ptr<Model>, Refusal> ModelRegistry::Impl::exchange(
    Slot& slot, const std::vector<Slot*>& in_the_way, std::unique_lock<std::mutex>& lock) {
  struct Loading {  // however this is left
    Impl& self;
    Slot& slot;
    std::unique_lock<std::mutex>& lock;
    ~Loading() {
      if (!lock.owns_lock()) lock.lock();
      slot.is_loading = false;
      self.changed.notify_all();
    }
  } const loading{*this, slot, lock};
  slot.is_loading = true;
  for (Slot* const other : in_the_way) other->is_leaving = true;
  lock.unlock();
  unload(in_the_way);
  auto model = load(slot);
  if (!model) {
    log::error("model '" + slot.source.name + "': " + model.error().message);
    Failure<Refusal> refused = refuse(
        model.error().code, "model '" + slot.source.name + "' could not be loaded", "engine_error");
    refused.value().detail = model.error().message;
    return refused;
  }
  lock.lock();
  slot.model = *std::move(model);
  ++slot.loads;
  return lease_of(slot);
}

Expected<std::shared_ptr<Model>> ModelRegistry::Impl::load(const Slot& slot) try {
  return slot.source.load();
} catch (const std::exception& error) {  // no memory
  return Unexpected(Error{Errc::limit_exceeded, error.what()});
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
  const std::lock_guard lock(impl_->mutex);
  return slot == nullptr ? nullptr : impl_->lease_of(*slot);
}

Result<std::shared_ptr<Model>, Refusal> ModelRegistry::use(std::string_view name) const {
  Slot& slot = *impl_->find(name);
  std::unique_lock lock(impl_->mutex);
  while (true) {
    if (auto model = impl_->lease_of(slot)) return model;
    if (!slot.is_loading && !slot.is_leaving) {
      const auto room = impl_->find_room(slot);
      if (!room) return Failure<Refusal>(room.error());
      if (room->is_there) return impl_->exchange(slot, room->in_the_way, lock);
    }
    impl_->changed.wait(lock);
  }
}

std::vector<ModelRegistry::Entry> ModelRegistry::entries() const {
  std::vector<Entry> entries;
  const std::lock_guard lock(impl_->mutex);
  for (const Slot& slot : impl_->slots) {
    entries.push_back({.name = slot.source.name,
                       .aliases = slot.source.aliases,
                       .loaded = slot.loaded(),
                       .memory_bytes = slot.source.memory_bytes,
                       .loads = slot.loads,
                       .unloads = slot.unloads,
                       .stats = slot.stats(),
                       .grammars = slot.grammars()});
  }
  return entries;
}

}  // namespace tenon::chat
