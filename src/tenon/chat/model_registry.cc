#include "tenon/chat/model_registry.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <utility>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "tenon/base/log.h"
#include "tenon/format/format.h"

// How room is found
//
// Each model has a Slot, which outlives its engine. use() counts itself as waiting for the slot and
// loops: if the model is loaded, it takes a lease; else find_room() adds up the memory of the other
// models in three groups: idle ones, which can be unloaded; those that are loading or leaving,
// which are worth waiting for; and busy ones. If even unloading everything idle is not enough
// beside the busy ones, use() refuses with the numbers. If it is enough once the others have come
// or gone, it waits for `changed`. Else exchange() marks the slots, releases the mutex, unloads
// those that were used longest ago, loads the model, and wakes the waiters. Loading and unloading
// never hold the mutex, since both take long and engines wait for their threads. A lease is no
// owner: it only counts in Slot::uses, so that the last one to go, perhaps the engine's own thread,
// never destroys the engine.

namespace tenon::chat {
namespace {

bool is_named(const std::string& own, const std::vector<std::string>& aliases,
              std::string_view name) {
  return own == name || std::ranges::find(aliases, name) != aliases.end();
}

// One model. A lease counts in `uses`, which outlives model and registry.
struct Slot {
  explicit Slot(ModelSource of) : source(std::move(of)) {}

  ModelSource source;
  // Guarded by the registry's mutex:
  std::shared_ptr<Model> model;  // null: it is not loaded
  bool is_loading = false;       // its memory counts as taken
  bool is_leaving = false;       // it is being destroyed, and still has its memory
  std::shared_ptr<std::atomic<int>> uses = std::make_shared<std::atomic<int>>(0);
  int waiting = 0;  // how many calls of use() wait for it
  std::uint64_t last_use = 0;
  std::uint64_t loads = 0;
  std::uint64_t unloads = 0;
  engine::EngineStats past_stats;  // of earlier engines
  GrammarCounts past_grammars;

  [[nodiscard]] bool is_named(std::string_view name) const {
    return chat::is_named(source.name, source.aliases, name);
  }
  // A lease may be gone while its answer still runs in the engine, so both count.
  [[nodiscard]] bool is_busy() const {
    return uses->load(std::memory_order_acquire) > 0 || model->stats().unfinished > 0;
  }
  [[nodiscard]] std::shared_ptr<Model> lease() const {
    uses->fetch_add(1, std::memory_order_acq_rel);
    // A lease is no owner: the last one may be dropped by the engine's own thread, which must not
    // destroy the engine.
    return {model.get(), [uses = uses](Model*) { uses->fetch_sub(1, std::memory_order_acq_rel); }};
  }
  [[nodiscard]] std::optional<ModelRegistry::Loaded> loaded() const {
    if (model == nullptr) return std::nullopt;
    const format::Format* const format = model->format();
    return ModelRegistry::Loaded{.engine = model->capabilities(),
                                 .format = format == nullptr ? "" : format::info(*format).name,
                                 .is_parallel = format != nullptr && format::info(*format).parallel,
                                 .is_recursive = model->takes_rlm()};
  }
  // Counters never fall when a model is unloaded and loaded again: past_stats has what earlier
  // engines counted.
  [[nodiscard]] engine::EngineStats stats() const {
    engine::EngineStats all = past_stats;
    if (model != nullptr) all += model->stats();
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

// While it lives, a call of use() waits for the model of `slot`, and the slot stays. Its destructor
// locks the mutex if it is not locked.
class Waiting {
 public:
  Waiting(Slot& slot, std::unique_lock<std::mutex>& lock) : slot_(slot), lock_(lock) {
    ++slot_.waiting;
  }
  ~Waiting() {
    if (!lock_.owns_lock()) lock_.lock();
    --slot_.waiting;
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  Slot& slot_;
  std::unique_lock<std::mutex>& lock_;
};

// Rounded up, so that "needs 5 MiB" never names less than is needed.
std::string mebibytes(std::uint64_t bytes) {
  constexpr std::uint64_t kMebibyte = 1U << 20U;
  return std::to_string((bytes + kMebibyte - 1) / kMebibyte) + " MiB";
}

Failure<Refusal> refuse_loading(Errc code, std::string message, std::string stable_code) {
  return Failure<Refusal>(
      {.error = {code, std::move(message)}, .param = {}, .code = std::move(stable_code)});
}

// Call when a model has been destroyed. What it had lies in the arenas of the threads that worked
// for it. glibc by itself gives back only their upper ends, and threads of the next model may have
// other arenas, so without this a server grows each time that a model is loaded anew.
void give_back_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace

struct ModelRegistry::Impl {
  explicit Impl(Options chosen) : options(chosen) {}

  // All of these are called under the mutex.
  using Slots = std::list<std::shared_ptr<Slot>>;
  [[nodiscard]] static std::shared_ptr<Slot> find(const Slots& among, std::string_view name) {
    const auto slot =
        std::ranges::find_if(among, [&](const auto& each) { return each->is_named(name); });
    return slot == among.end() ? nullptr : *slot;
  }
  // The model that answers to `name`. One with the alias "*" answers to all names without a model.
  [[nodiscard]] std::shared_ptr<Slot> find_any(std::string_view name) const {
    auto slot = find(slots, name);
    return slot == nullptr ? find(slots, "*") : slot;
  }
  [[nodiscard]] Status check(const Slots& among, const ModelSource& source) const;

  // Call under the mutex. Null: the model is not loaded.
  std::shared_ptr<Model> lease_of(Slot& slot) {
    if (slot.model == nullptr) return nullptr;
    slot.last_use = ++clock;
    return slot.lease();
  }
  struct Room {
    bool is_there =
        false;  // once `in_the_way` are unloaded; false: wait for loading or leaving ones
    std::vector<Slot*> in_the_way;
  };
  Result<Room, Refusal> find_room(const Slot& wanted);
  std::vector<Slot*> all();
  void unload(const std::vector<Slot*>& in_the_way);
  std::shared_ptr<Model> take(Slot& slot);
  Result<std::shared_ptr<Model>, Refusal> exchange(Slot& slot, const std::vector<Slot*>& in_the_way,
                                                   std::unique_lock<std::mutex>& lock);
  Expected<std::shared_ptr<Model>> load(const Slot& slot);

  std::mutex mutex;  // guards the members below and slots; not held while a model loads or leaves
  Options options;
  Slots slots;
  Slots removed;                    // taken out by replace(), but still in use
  std::condition_variable changed;  // a model was loaded or unloaded, or failed to load
  std::uint64_t clock = 0;
};

// Fails if a name or alias of `source` is taken, or if the model could never be loaded.
Status ModelRegistry::Impl::check(const Slots& among, const ModelSource& source) const {
  std::vector<std::string> names = source.aliases;
  names.push_back(source.name);
  for (const std::string& name : names) {
    if (name.empty()) return Unexpected(Error{Errc::invalid, "a model needs a name"});
    if (find(among, name) == nullptr) continue;
    return Unexpected(Error{Errc::invalid, "the model name '" + name + "' is given twice"});
  }
  const std::uint64_t most = options.max_bytes;
  if (most == 0 || source.memory_bytes <= most) return {};
  return Unexpected(Error{Errc::limit_exceeded,
                          "model '" + source.name + "' needs " + mebibytes(source.memory_bytes) +
                              ", but all models together may take " + mebibytes(most)});
}

// Removed models are among them while they are in use: they still take memory.
std::vector<Slot*> ModelRegistry::Impl::all() {
  std::vector<Slot*> all;
  for (const Slots* const list : {&slots, &removed}) {
    for (const auto& slot : *list) all.push_back(slot.get());
  }
  return all;
}

// Call under the mutex. Takes the model out of the slot; the caller destroys it without the mutex.
std::shared_ptr<Model> ModelRegistry::Impl::take(Slot& slot) {
  slot.past_stats = slot.stats();
  slot.past_stats.come_to_rest();
  slot.past_grammars = slot.grammars();
  slot.past_grammars.cache_bytes = 0;
  ++slot.unloads;
  return std::move(slot.model);
}

// Call under the mutex. Finds which idle models must go so that `wanted` fits, those first whose
// last use is longest ago. Refuses, and changes nothing, if there would not be enough room even
// without the idle models and those that are loading or leaving.
Result<ModelRegistry::Impl::Room, Refusal> ModelRegistry::Impl::find_room(const Slot& wanted) {
  std::uint64_t held = 0;   // by all models that are loaded, loading or leaving
  std::uint64_t going = 0;  // by those loading or leaving, which may soon be idle or gone
  std::uint64_t busy = 0;   // by those that cannot be unloaded
  std::string busy_names;
  Room room;
  for (Slot* const each : all()) {
    Slot& slot = *each;
    const std::uint64_t bytes = slot.source.memory_bytes;
    const bool is_going = slot.is_loading || slot.is_leaving;
    // Models that take no memory here (0), such as those of upstreams, are never in the way.
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
    return refuse_loading(Errc::limit_exceeded,
                          "model '" + wanted.source.name + "' needs " + mebibytes(needed) +
                              ", but of the " + mebibytes(options.max_bytes) + " for models " +
                              mebibytes(busy) + " are in use by " + busy_names,
                          "engine_busy");
  }
  // Only models that come or go are in the way: when they are done, use() looks again.
  if (!fits(busy + going)) return Room{};
  room.is_there = true;
  std::ranges::sort(room.in_the_way, {}, &Slot::last_use);
  auto last = room.in_the_way.begin();
  while (!fits(held)) held -= (*last++)->source.memory_bytes;
  room.in_the_way.erase(last, room.in_the_way.end());
  return room;
}

// Call without the mutex, since engines wait for their threads.
void ModelRegistry::Impl::unload(const std::vector<Slot*>& in_the_way) {
  for (Slot* const slot : in_the_way) {
    std::unique_lock lock(mutex);
    std::shared_ptr<Model> gone = take(*slot);
    lock.unlock();
    gone.reset();
    give_back_memory();
    log::info("model '" + slot->source.name + "' is unloaded: others need its " +
              mebibytes(slot->source.memory_bytes));
    lock.lock();
    slot->is_leaving = false;  // from here on sweep() may remove the slot
  }
  if (!in_the_way.empty()) changed.notify_all();
}

// Loads the model of `slot` after unloading those in its way. `lock` holds the mutex.
Result<std::shared_ptr<Model>, Refusal> ModelRegistry::Impl::exchange(
    Slot& slot, const std::vector<Slot*>& in_the_way, std::unique_lock<std::mutex>& lock) {
  struct Loading {  // runs on every way out
    Impl& self;
    Slot& slot;
    std::unique_lock<std::mutex>& lock;
    ~Loading() {
      if (!lock.owns_lock()) lock.lock();
      slot.is_loading = false;
      self.changed.notify_all();
    }
  } const loading{*this, slot, lock};
  // From here other calls of use() for this model wait instead of loading it a second time.
  slot.is_loading = true;
  for (Slot* const other : in_the_way) other->is_leaving = true;
  lock.unlock();
  unload(in_the_way);
  auto model = load(slot);
  if (!model) {
    const std::string named = "model '" + slot.source.name + "'";
    // Some sources name the model themselves.
    std::string why = std::move(model.error().message);
    if (!why.starts_with(named)) why.insert(0, named + ": ");
    log::error(why);
    Failure<Refusal> refused =
        refuse_loading(model.error().code, named + " could not be loaded", "engine_error");
    // Clients are told that it failed; the reason, with its paths, is for the log and the operator.
    refused.value().detail = std::move(why);
    return refused;
  }
  lock.lock();
  slot.model = *std::move(model);
  ++slot.loads;
  return lease_of(slot);
}

Expected<std::shared_ptr<Model>> ModelRegistry::Impl::load(const Slot& slot) try {
  return slot.source.load();
} catch (const std::exception& error) {  // out of memory
  return Unexpected(Error{Errc::limit_exceeded, error.what()});
}

ModelRegistry::ModelRegistry(Options options) : impl_(std::make_unique<Impl>(options)) {}
ModelRegistry::ModelRegistry(ModelRegistry&&) noexcept = default;
ModelRegistry& ModelRegistry::operator=(ModelRegistry&&) noexcept = default;
ModelRegistry::~ModelRegistry() = default;

Status ModelRegistry::add(ModelSource source) {
  std::vector<Addition> one;
  one.push_back({.source = std::move(source), .model = nullptr});
  return replace({}, std::move(one));
}

Status ModelRegistry::add(std::shared_ptr<Model> model) {
  std::vector<Addition> one;
  ModelSource source{
      .name = model->name(), .aliases = model->aliases(), .is_recursive = model->takes_rlm()};
  one.push_back({.source = std::move(source), .model = std::move(model)});
  return replace({}, std::move(one));
}

// Works on copies of the lists and swaps them at the end, so a fault changes nothing. A model that
// comes back under its name goes on with the counters of the old one.
Status ModelRegistry::replace(const std::vector<std::string>& names,
                              std::vector<Addition> additions) {
  const std::lock_guard lock(impl_->mutex);
  Impl::Slots slots = impl_->slots;
  Impl::Slots removed;
  for (const std::string& name : names) {
    const auto slot = Impl::find(slots, name);
    if (slot == nullptr) continue;
    slots.remove(slot);
    removed.push_back(slot);
  }
  for (auto& [source, model] : additions) {
    if (Status checked = impl_->check(slots, source); !checked) return checked;
    const auto before = Impl::find(removed, source.name);
    auto slot = std::make_shared<Slot>(std::move(source));
    if (before != nullptr) {
      slot->past_stats = before->stats();
      slot->past_stats.come_to_rest();
      slot->past_grammars = before->grammars();
      slot->past_grammars.cache_bytes = 0;
      slot->loads = before->loads;
      slot->unloads = before->unloads;
    }
    if (model != nullptr) {
      slot->model = std::move(model);
      slot->last_use = ++impl_->clock;
      ++slot->loads;
    }
    slots.push_back(std::move(slot));
  }
  impl_->slots.swap(slots);
  impl_->removed.splice(impl_->removed.end(), removed);
  return {};
}

// Destroys removed models that are no longer used. is_leaving keeps other calls off the slots while
// the mutex is free.
std::size_t ModelRegistry::sweep() {
  std::vector<std::shared_ptr<Slot>> idle;
  std::vector<std::shared_ptr<Model>> gone;
  std::unique_lock lock(impl_->mutex);
  for (const auto& slot : impl_->removed) {
    if (slot->is_loading || slot->is_leaving || slot->waiting > 0) continue;
    if (slot->model != nullptr && slot->is_busy()) continue;
    slot->is_leaving = true;
    gone.push_back(std::move(slot->model));
    idle.push_back(slot);
  }
  lock.unlock();
  if (!gone.empty()) {
    gone.clear();
    give_back_memory();
  }
  lock.lock();
  for (const auto& slot : idle) impl_->removed.remove(slot);
  const std::size_t used = impl_->removed.size();
  lock.unlock();
  if (!idle.empty()) impl_->changed.notify_all();  // there is room
  return used;
}

void ModelRegistry::set_max_bytes(std::uint64_t max_bytes) {
  const std::lock_guard lock(impl_->mutex);
  impl_->options.max_bytes = max_bytes;
}

bool ModelRegistry::Entry::is_named(std::string_view one) const {
  return chat::is_named(name, aliases, one);
}

bool ModelRegistry::has(std::string_view name) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->find_any(name) != nullptr;
}

std::string ModelRegistry::own_name(std::string_view name) const {
  const std::lock_guard lock(impl_->mutex);
  const auto slot = impl_->find_any(name);
  return slot == nullptr ? std::string() : slot->source.name;
}

bool ModelRegistry::has_own(std::string_view name) const {
  const std::lock_guard lock(impl_->mutex);
  return Impl::find(impl_->slots, name) != nullptr;
}

bool ModelRegistry::has_single(std::string_view name) const {
  const std::lock_guard lock(impl_->mutex);
  const auto slot = Impl::find(impl_->slots, name);
  return slot != nullptr && !slot->source.is_recursive;
}

std::shared_ptr<Model> ModelRegistry::loaded(std::string_view name) const {
  const std::lock_guard lock(impl_->mutex);
  const auto slot = impl_->find_any(name);
  return slot == nullptr ? nullptr : impl_->lease_of(*slot);
}

Result<std::shared_ptr<Model>, Refusal> ModelRegistry::use(std::string_view name) const {
  std::unique_lock lock(impl_->mutex);
  const auto slot = impl_->find_any(name);
  if (slot == nullptr) {
    return refuse_loading(Errc::unavailable,
                          "the model '" + std::string(name) + "' is no longer there",
                          "engine_error");
  }
  const Waiting waiting(*slot, lock);
  // Each round may find another state: another call may have loaded the model, or taken the room.
  while (true) {
    if (auto model = impl_->lease_of(*slot)) return model;
    if (!slot->is_loading && !slot->is_leaving) {
      const auto room = impl_->find_room(*slot);
      if (!room) return Failure<Refusal>(room.error());
      if (room->is_there) return impl_->exchange(*slot, room->in_the_way, lock);
    }
    impl_->changed.wait(lock);
  }
}

std::vector<ModelRegistry::Entry> ModelRegistry::entries() const {
  std::vector<Entry> entries;
  const std::lock_guard lock(impl_->mutex);
  for (const auto& each : impl_->slots) {
    const Slot& slot = *each;
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
