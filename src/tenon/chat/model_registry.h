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
#include "tenon/chat/responder.h"
#include "tenon/engine/engine.h"

namespace tenon::chat {

/// A model that is loaded when it is asked for.
struct ModelSource {
  std::string name;
  std::vector<std::string> aliases;
  /// Of weights and caches together; 0: it takes none here, and is never unloaded.
  std::uint64_t memory_bytes = 0;
  bool is_recursive = false;  ///< Made of other models, and so no part of one that is.
  /// Called from the thread that asks, for several models at a time where several are asked for,
  /// but once at a time for each. What it throws fails that request.
  std::function<Expected<std::shared_ptr<Model>>()> load;
};

/// Models by name and alias, each loaded when somebody first needs it and unloaded when others need
/// its memory: the one that was used longest ago first, and never one that has a run under way.
///
///     ModelRegistry models({.max_bytes = std::uint64_t{16} << 30});
///     models.add({.name = "a", .memory_bytes = size, .load = [] { return load("a.gguf"); }});
///     auto model = models.use("a");             // loads it, if need be: seconds or minutes
///     auto answer = (*model)->start(request, sink);
///
/// What loaded() and use() give keeps the model loaded while it is held; a run that was started on
/// it keeps it too, until its end. It must be let go of before the registry is destroyed.
/// Thread-safe.
class ModelRegistry {
 public:
  struct Options {
    std::uint64_t max_bytes = 0;  ///< Of all models that are loaded; 0: no limit.
  };

  explicit ModelRegistry(Options options);
  ModelRegistry() : ModelRegistry(Options{}) {}
  ModelRegistry(ModelRegistry&&) noexcept;
  ModelRegistry& operator=(ModelRegistry&&) noexcept;
  ~ModelRegistry();

  /// Fails with `invalid` if a name or alias is taken, and with `limit_exceeded`, naming the
  /// numbers, where the model alone takes more than max_bytes.
  [[nodiscard]] Status add(ModelSource source);
  /// One that is loaded, and stays so.
  [[nodiscard]] Status add(std::shared_ptr<Model> model);

  /// A source with the model that it has loaded already; null: it has not.
  struct Addition {
    ModelSource source;
    std::shared_ptr<Model> model;
  };
  /// At once: those called `names` are no longer there, and `additions` are. Runs of the former go
  /// on, and whoever holds one keeps it; it is destroyed by a sweep() after that. An addition of
  /// the same name goes on with its counts. Fails as add() does, and then changes nothing.
  [[nodiscard]] Status replace(const std::vector<std::string>& names,
                               std::vector<Addition> additions);
  /// Destroys what replace() took away and nobody uses any more; how many are still in use. Waits
  /// for their engines.
  std::size_t sweep();
  /// Of Options, from now on. What is loaded stays so until others need the room.
  void set_max_bytes(std::uint64_t max_bytes);

  /// Whether a model answers to this name: one that is called so, else one with the alias "*".
  [[nodiscard]] bool has(std::string_view name) const;
  /// The name of the model that answers to `name`; "" if no model does.
  [[nodiscard]] std::string own_name(std::string_view name) const;
  /// The same without "*".
  [[nodiscard]] bool has_own(std::string_view name) const;
  /// Whether there is a model of this very name that is not recursive.
  [[nodiscard]] bool has_single(std::string_view name) const;
  /// Null: there is none of this name, or it is not loaded.
  [[nodiscard]] std::shared_ptr<Model> loaded(std::string_view name) const;
  /// The model; loads it, after unloading others where there is not enough
  /// room. Waits for one that is being loaded, and where others that are being loaded or unloaded
  /// take the room. Refused with engine_busy and the numbers where what others hold leaves no room
  /// now, and with engine_error where there is none of this name. Where loading fails the refusal
  /// has the model's name only: the log says why.
  [[nodiscard]] Result<std::shared_ptr<Model>, Refusal> use(std::string_view name) const;

  /// What there is to say of a model that is loaded.
  struct Loaded {
    engine::Capabilities engine;
    std::string format;         ///< "": it has none, and takes no tools.
    bool is_parallel = false;   ///< The format has several calls in one answer.
    bool is_recursive = false;  ///< It takes the tools that its root takes.
  };
  /// What there is to say of one model.
  struct Entry {
    std::string name;
    std::vector<std::string> aliases;
    std::optional<Loaded> loaded;
    std::uint64_t memory_bytes = 0;
    std::uint64_t loads = 0;
    std::uint64_t unloads = 0;
    engine::EngineStats stats;  ///< Of all its engines so far.
    GrammarCounts grammars;

    [[nodiscard]] bool is_named(std::string_view one) const;
  };
  /// All models, as they were added. To ask is no use of them.
  [[nodiscard]] std::vector<Entry> entries() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::chat
