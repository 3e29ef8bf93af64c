#include "tenon/capi/service.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <future>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/base/failure.h"
#include "tenon/base/utf8.h"
#include "tenon/capi/caller_engine.h"
#include "tenon/capi/handle.h"
#include "tenon/capi/template.h"
#include "tenon/capi/vocab.h"
#include "tenon/chat/model.h"
#include "tenon/config/config.h"
#include "tenon/config/models.h"
#include "tenon/format/registry.h"

// A service is a config::Instance: the models and routes of the server, without a socket until
// tenon_service_listen(). A call goes through the same handlers as one from the network, and its
// answer comes in pieces (http::LocalAnswer). The caller takes them itself (tenon_call_next), or a
// thread of the call tells them to its function (tell).

namespace tenon::capi {
namespace {

// The bundled model, or the one in a file.
Expected<config::Config> config_of_file(const std::string& gguf) {
  auto model = config::model_from_path(gguf);
  if (!model) return Unexpected(std::move(model.error()));
  config::Config config;
  config.models.push_back(*std::move(model));
  config.server.port = 0;  // no port was given: any free one
  return config;
}

Expected<config::Config> config_in(const std::string& file) {
  auto config = config::read_config(file);
  if (!config && !file.ends_with(".toml")) {
    config.error().message += " (it is read as a configuration, since it is no .gguf file)";
  }
  return config;
}

Expected<tenon_service*> service_of(Expected<config::Config> config) {
  if (!config) return Unexpected(std::move(config.error()));
  auto instance = config::Instance::open(*std::move(config));
  if (!instance) return Unexpected(std::move(instance.error()));
  if (Status loaded = (*instance)->load_models(); !loaded) {
    return Unexpected(std::move(loaded.error()));
  }
  return new tenon_service{*std::move(instance)};
}

Expected<std::unique_ptr<http::LocalAnswer>> asked(tenon_service& service, tenon_text method,
                                                   tenon_text path, tenon_text body) {
  constexpr std::string_view kMethods[] = {"GET", "POST", "DELETE"};
  if (std::ranges::find(kMethods, view(method)) == std::end(kMethods)) {
    return invalid("method must be GET, POST or DELETE, not '" + std::string(view(method)) + "'");
  }
  if (!view(path).starts_with('/')) {
    return invalid("path must begin with '/', as /v1/chat/completions does");
  }
  return service.instance->ask(std::string(view(method)), view(path), std::string(view(body)));
}

// Always calls on_piece with an end, even after an exception, because the caller may wait for it.
// The end is 1 for a whole answer and 2 for one that was cut.
void tell(http::LocalAnswer& answer, tenon_piece_fn on_piece, void* user) noexcept {
  static_cast<void>(guarded_or(0, [&] {
    while (const auto piece = answer.next()) {
      on_piece(user, static_cast<int>(answer.status()), text_of(*piece), 0);
    }
    return 0;
  }));
  on_piece(user, static_cast<int>(answer.status()), text_of({}), answer.was_cut() ? 2 : 1);
}

// `size` tells the version of the struct that the caller was compiled with; there has been one so
// far.
Status check_engine(const tenon_engine& engine, std::string_view name) {
  if (engine.size != sizeof(tenon_engine)) {
    return invalid("engine.size must be sizeof(tenon_engine), " +
                   std::to_string(sizeof(tenon_engine)));
  }
  if (engine.start == nullptr) return invalid("engine.start is NULL");
  if (engine.context_tokens == 0) return invalid("engine.context_tokens is 0");
  constexpr std::uint32_t kMostConcurrent = 1U << 20;
  if (engine.max_concurrent > kMostConcurrent) {
    return invalid("engine.max_concurrent is over " + std::to_string(kMostConcurrent));
  }
  if (name.empty()) return invalid("name is empty");
  if (!utf8::is_valid(name)) return invalid("name is not UTF-8");
  return {};
}

}  // namespace
}  // namespace tenon::capi

namespace capi = tenon::capi;
namespace config = tenon::config;
using tenon::Errc;
using tenon::Error;
using tenon::Status;
using tenon::Unexpected;

tenon_error* tenon_service_open(tenon_text text, tenon_text folder, tenon_service** service) {
  capi::clear(service);
  return capi::guarded({{service, "service"}}, [&]() -> Status {
    const std::string_view source = capi::view(text);
    auto opened = capi::service_of(
        source.empty() ? capi::config_of_file("")
                       : config::parse_config(source, "the configuration", capi::view(folder)));
    if (!opened) return Unexpected(std::move(opened.error()));
    *service = *opened;
    return {};
  });
}

// A model's file is served with the default configuration; any other file is a configuration.
tenon_error* tenon_service_load(tenon_text path, tenon_service** service) {
  capi::clear(service);
  return capi::guarded({{service, "service"}}, [&]() -> Status {
    if (Status checked = capi::check_path(path, "a tenon.toml or a GGUF file"); !checked) {
      return checked;
    }
    const std::string file(capi::view(path));
    auto opened = capi::service_of(file.ends_with(".gguf") ? capi::config_of_file(file)
                                                           : capi::config_in(file));
    if (!opened) return Unexpected(std::move(opened.error()));
    *service = *opened;
    return {};
  });
}

void tenon_service_free(tenon_service* service) {
  tenon_service_shut_down(service);
  delete service;
}

void tenon_service_shut_down(tenon_service* service) {
  if (service == nullptr) return;
  static_cast<void>(capi::guarded_or(0, [&] {
    service->instance->shut_down(std::chrono::milliseconds(0));
    return 0;
  }));
}

tenon_error* tenon_service_call(tenon_service* service, tenon_text method, tenon_text path,
                                tenon_text body, tenon_piece_fn on_piece, void* user,
                                tenon_call** call) {
  capi::clear(call);
  return capi::guarded({{service, "service"}, {call, "call"}}, [&]() -> Status {
    auto answer = capi::asked(*service, method, path, body);
    if (!answer) return Unexpected(std::move(answer.error()));
    auto made = std::make_unique<tenon_call>();
    made->answer = *std::move(answer);
    if (on_piece == nullptr) {
      *call = made.release();
      return {};
    }
    made->is_told = true;
    *call = made.get();  // set first, since on_piece may use it
    // The teller waits until then: a thread that sees the end may free the call at once.
    std::promise<void> is_whole;
    try {
      made->teller = std::thread(
          [&answered = *made->answer, on_piece, user, whole = is_whole.get_future()]() mutable {
            whole.wait();
            capi::tell(answered, on_piece, user);
          });
    } catch (...) {
      *call = nullptr;
      throw;
    }
    static_cast<void>(made.release());
    is_whole.set_value();
    return {};
  });
}

void tenon_call_free(tenon_call* call) {
  if (call == nullptr) return;
  // Cancelled first, so that the thread, which waits for a piece, ends soon.
  call->answer->cancel();
  if (call->teller.joinable()) call->teller.join();
  delete call;
}

// Returns 0 for a piece, or none within the time; 1 at the end; 2 if the answer was cut.
int tenon_call_next(tenon_call* call, std::uint32_t timeout_ms, int* status, tenon_string** piece) {
  capi::clear(status, piece);
  constexpr int kCut = 2;
  if (call == nullptr || status == nullptr || piece == nullptr || call->is_told) return kCut;
  return capi::guarded_or(kCut, [&] {
    auto taken = call->answer->next(std::chrono::milliseconds(timeout_ms));
    *status = static_cast<int>(call->answer->status());
    if (!taken) return call->answer->was_cut() ? kCut : 1;
    if (!taken->empty()) *piece = capi::new_string(*std::move(taken));
    return 0;
  });
}

void tenon_call_cancel(tenon_call* call) {
  if (call != nullptr) call->answer->cancel();
}

// Waits for the whole answer on the calling thread. The status is set last, with the answer, so
// that a failure leaves neither.
tenon_error* tenon_service_ask(tenon_service* service, tenon_text method, tenon_text path,
                               tenon_text body, int* status, tenon_string** answer) {
  capi::clear(status, answer);
  return capi::guarded(
      {{service, "service"}, {status, "status"}, {answer, "answer"}}, [&]() -> Status {
        auto answered = capi::asked(*service, method, path, body);
        if (!answered) return Unexpected(std::move(answered.error()));
        std::string whole;
        while (const auto piece = (*answered)->next()) whole += *piece;
        if ((*answered)->was_cut()) {
          return Unexpected(Error{Errc::unavailable, "the answer was cut: the service has ended"});
        }
        *answer = capi::new_string(std::move(whole));
        *status = static_cast<int>((*answered)->status());
        return {};
      });
}

tenon_error* tenon_service_listen(tenon_service* service, tenon_text host, int port,
                                  tenon_string** url) {
  capi::clear(url);
  return capi::guarded({{service, "service"}, {url, "url"}}, [&]() -> Status {
    if (port < -1 || port > 65'535) {
      return tenon::invalid("port must be from 0 to 65535, or -1 for the configuration's");
    }
    config::Instance& instance = *service->instance;
    const config::ServerConfig& place = instance.config().server;
    Status listening =
        instance.listen(capi::view(host).empty() ? place.host : std::string(capi::view(host)),
                        static_cast<std::uint16_t>(port == -1 ? place.port : port));
    if (!listening) return listening;
    *url = capi::new_string(instance.base_url());
    return {};
  });
}

tenon_error* tenon_service_stop_listening(tenon_service* service, std::uint32_t grace_ms) {
  return capi::guarded({{service, "service"}}, [&]() -> Status {
    service->instance->stop_listening(std::chrono::milliseconds(grace_ms));
    return {};
  });
}

// The model gets the template and format of `chat_template`, and the ends of the vocabulary.
tenon_error* tenon_service_add_engine(tenon_service* service, tenon_text name,
                                      const tenon_engine* engine, const tenon_vocab* vocab,
                                      const tenon_template* chat_template) {
  return capi::guarded(
      {{service, "service"}, {engine, "engine"}, {vocab, "vocab"}}, [&]() -> Status {
        if (Status checked = capi::check_engine(*engine, capi::view(name)); !checked) {
          return checked;
        }
        const capi::Vocabulary& vocabulary = *vocab->vocabulary;
        // Encoding a letter finds out whether the vocabulary has a tokenizer; the ids are not
        // needed.
        std::vector<std::int32_t> ids;
        const Status encoded =
            vocabulary.tokenizer().encode("a", tenon::vocab::Controls::off, true, ids);
        if (!encoded) return Unexpected(encoded.error());
        const auto ends = vocabulary.tokens().ends();
        tenon::chat::ModelOptions options{.name = std::string(capi::view(name)),
                                          .time_limit = std::chrono::seconds(
                                              service->instance->config().server.request_timeout_s),
                                          .begin_required_call = false,
                                          .turn_ends = {ends.begin(), ends.end()}};
        if (chat_template != nullptr) {
          options.chat_template = chat_template->compiled->source();
          const auto& format = chat_template->compiled->format();
          // The general format is not passed on: the model chooses it by itself if it may.
          options.generic_fallback = format != nullptr;
          if (format != tenon::format::fallback()) options.own_format = format;
        }
        auto model = tenon::chat::Model::create(
            std::move(options),
            std::make_shared<capi::CallerEngine>(*engine, vocabulary.shared_tokenizer()));
        if (!model) return Unexpected(std::move(model.error()));
        return service->instance->service().models().add(*std::move(model));
      });
}
