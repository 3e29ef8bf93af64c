#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/chat/model.h"
#include "tenon/engine/engine.h"

namespace tenon::chat {

/// A model that is loaded when a request needs it.
struct ModelSource {
  std::string name;
  std::vector<std::string> aliases;
  /// For weights and caches together; 0: it takes no memory here, and is never unloaded.
  std::uint64_t memory_bytes = 0;
  bool is_recursive = false;  ///< Made of other models, so it cannot be a part of another one.
  /// Called on the thread that needs the model. Several models may load at the same time, but each
  /// of them only once at a time. An exception fails that request.
  std::function<Expected<std::shared_ptr<Model>>()> load;
};

/// Models by name and alias. Each is loaded when a request first needs it, and unloaded when others
/// need its memory: the one that was used longest ago first, and never one with a run under way.
///
///     ModelRegistry models({.max_bytes = std::uint64_t{16} << 30});
///     models.add({.name = "a", .memory_bytes = size, .load = [] { return load("a.gguf"); }});
///     auto model = models.use("a");             // loads it, if need be: seconds or minutes
///     auto answer = (*model)->start(request, sink);
///
/// A pointer from loaded() or use() keeps the model loaded; a run that was started on it keeps it,
/// too, until the run's end. All such pointers must be gone before the registry is destroyed.
/// Thread-safe.
class ModelRegistry {
 public:
  struct Options {
    std::uint64_t max_bytes = 0;  ///< For all loaded models together; 0: no limit.
  };

  explicit ModelRegistry(Options options);
  ModelRegistry() : ModelRegistry(Options{}) {}
  ModelRegistry(ModelRegistry&&) noexcept;
  ModelRegistry& operator=(ModelRegistry&&) noexcept;
  ~ModelRegistry();

  /// Fails with `invalid` if a name or alias is taken, and with `limit_exceeded`, naming the
  /// numbers, if the model alone takes more than max_bytes.
  [[nodiscard]] Status add(ModelSource source);
  /// Adds a model that is loaded, and stays so.
  [[nodiscard]] Status add(std::shared_ptr<Model> model);

  /// A source, and its model if it is loaded already; null: it is not.
  struct Addition {
    ModelSource source;
    std::shared_ptr<Model> model;
  };
  /// Removes the models called `names` and adds `additions`, in one step. Runs of removed models go
  /// on, and pointers to them keep them; a later sweep() destroys them. An addition with the name
  /// of a removed model keeps its counts. Fails as add() does, and then changes nothing.
  [[nodiscard]] Status replace(const std::vector<std::string>& names,
                               std::vector<Addition> additions);
  /// Destroys the models that replace() removed and that are not used any more; returns how many
  /// are still in use. Waits for their engines.
  std::size_t sweep();
  /// Changes Options::max_bytes. Loaded models stay until others need the room.
  void set_max_bytes(std::uint64_t max_bytes);

  /// Whether a model answers to this name: one with the name, else one with the alias "*".
  [[nodiscard]] bool has(std::string_view name) const;
  /// The name of the model that answers to `name`; "" if no model does.
  [[nodiscard]] std::string own_name(std::string_view name) const;
  /// The same without "*".
  [[nodiscard]] bool has_own(std::string_view name) const;
  /// Whether there is a model with this very name that is not recursive.
  [[nodiscard]] bool has_single(std::string_view name) const;
  /// Null: there is no model of this name, or it is not loaded.
  [[nodiscard]] std::shared_ptr<Model> loaded(std::string_view name) const;
  /// The model. Loads it if needed, after unloading others if there is not enough room. Waits if it
  /// is being loaded already, and if models that are being loaded or unloaded take the room.
  /// Refused with engine_busy and the numbers if models in use leave no room, and with engine_error
  /// if there is no model of this name. If loading fails, the refusal has only the model's name;
  /// the log says why.
  [[nodiscard]] Result<std::shared_ptr<Model>, Refusal> use(std::string_view name) const;

  /// The properties of a model that is loaded.
  struct Loaded {
    engine::Capabilities engine;
    std::string format;         ///< "": it has none, and accepts no tools.
    bool is_parallel = false;   ///< The format allows several calls in one answer.
    bool is_recursive = false;  ///< It accepts the tools that its root accepts.
  };
  /// The properties of one model.
  struct Entry {
    std::string name;
    std::vector<std::string> aliases;
    std::optional<Loaded> loaded;
    std::uint64_t memory_bytes = 0;
    std::uint64_t loads = 0;
    std::uint64_t unloads = 0;
    engine::EngineStats stats;  ///< Summed over all its engines so far.
    GrammarCounts grammars;

    [[nodiscard]] bool is_named(std::string_view one) const;
  };
  /// All models, in the order of their addition. The call does not count as a use of them.
  [[nodiscard]] std::vector<Entry> entries() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::chat
