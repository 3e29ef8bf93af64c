#include <algorithm>
#include <atomic>
#include <optional>
#include <string>

#include "service.h"

namespace tenon::python {

namespace {

/// One answer. Its functions are called from one thread at a time, and not after end().
class Generation {
 public:
  Generation(tenon_generation* generation, tenon_matcher* matcher, std::size_t mask_words)
      : generation_(generation) {
    if (matcher != nullptr)
      lent_ = nb::cast(
          new Matcher{
              .handle = nullptr, .grammar = nb::none(), .lent = matcher, .words = mask_words},
          nb::rv_policy::take_ownership);
  }
  ~Generation() { end({"error", 5}, {"the engine has let go of the answer", 35}); }
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  [[nodiscard]] nb::object matcher() const { return lent_.is_valid() ? lent_ : nb::none(); }
  [[nodiscard]] bool token(Token token) {
    tenon_generation* const generation = generation_;
    if (generation == nullptr) return false;
    Matcher* const matcher = lent();
    const nb::gil_scoped_release released;
    // The matcher accepts the token once no other thread uses it.
    std::optional<Turn::Taken> taken;
    if (matcher != nullptr) taken.emplace(matcher->turn, released);
    return tenon_generation_token(generation, token.id) == 0;
  }
  [[nodiscard]] bool is_cancelled() const {
    return generation_ == nullptr || tenon_generation_is_cancelled(generation_) != 0;
  }
  void end(tenon_text reason, tenon_text message) {
    tenon_generation* const generation = disown();
    if (generation == nullptr) return;
    const nb::gil_scoped_release released;
    tenon_generation_end(generation, reason, message);
  }
  /// Returns the library's generation, which the caller must end; this object is not used any more.
  tenon_generation* disown() {
    tenon_generation* const generation = std::exchange(generation_, nullptr);
    if (!origin_.is_here()) return nullptr;
    if (Matcher* const matcher = lent(); matcher != nullptr) {
      const nb::gil_scoped_release released;
      const Turn::Taken taken(matcher->turn, released);
      matcher->lent = nullptr;
    }
    return generation;
  }

 private:
  [[nodiscard]] Matcher* lent() const {
    return lent_.is_valid() ? &nb::cast<Matcher&>(lent_) : nullptr;
  }

  Origin origin_;
  tenon_generation* generation_;
  nb::object lent_;
};

// Called by the engine's thread for each answer. If Python's start() raises, the request fails.
int start(void* user, tenon_generation* generation, const std::int32_t* prompt, std::size_t count,
          tenon_text request, tenon_matcher* matcher) {
  const Callback callback;
  if (!callback.may_call()) return 1;
  const auto& engine = *static_cast<EngineOfPython*>(user);
  nb::object answer;
  try {
    answer = nb::cast(new Generation(generation, matcher, engine.mask_words),
                      nb::rv_policy::take_ownership);
    nb::handle(engine.start)(answer, list_of(prompt, count), loads(request));
    return 0;
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("an engine's start()");
  } catch (const std::exception&) {
  }
  // The library ends the generation itself after a start that has failed; ~Generation must not.
  if (answer.is_valid()) nb::cast<Generation&>(answer).disown();
  return 1;
}

}  // namespace

void bind_engine(nb::module_& m, nb::class_<Service>& service) {
  nb::class_<Generation>(m, "Generation")
      .def_prop_ro("matcher", &Generation::matcher)
      .def("token", &Generation::token, arg("id"))
      .def_prop_ro("is_cancelled", &Generation::is_cancelled)
      .def(
          "end",
          [](Generation& self, Text reason, Text message) { self.end(reason.text, message.text); },
          arg("reason") = "stop", arg("message") = "");
  service.def(
      "_add_engine",
      [](Service& self, Text name, nb::object start_function, Of<Vocab> vocab,
         Maybe<ChatTemplate> chat_template, Count context_tokens, Count max_concurrent) {
        auto of_python = std::make_unique<EngineOfPython>(EngineOfPython{
            start_function.ptr(), tenon_mask_words(tenon_vocab_size(vocab->handle.get()))});
        tenon_engine engine{};
        engine.size = sizeof(engine);
        engine.user = of_python.get();
        engine.start = &start;
        // A larger number is refused as too large.
        engine.context_tokens =
            static_cast<std::uint32_t>(std::min<std::size_t>(context_tokens.count, UINT32_MAX));
        engine.max_concurrent =
            static_cast<std::uint32_t>(std::min<std::size_t>(max_concurrent.count, UINT32_MAX));
        const auto handle = self.handle.get();
        check(without_gil(true, [&] {
          return tenon_service_add_engine(
              handle.get(), name.text, &engine, vocab->handle.get(),
              chat_template.it == nullptr ? nullptr : chat_template->handle.get());
        }));
        // Only now, when nothing can fail any more. The reference is released with the service.
        start_function.inc_ref();
        self.engines.push_back(std::move(of_python));
      },
      arg("name"), nb::arg("start"), arg("vocab"), arg("chat_template"), arg("context_tokens"),
      arg("max_concurrent"));
}

}  // namespace tenon::python
