#pragma once

#include <string>
#include <string_view>

#include "tenon/base/expected.h"

/// The names by which people call models that are not files of their own.
namespace tenon::hub {

/// A model on the Hugging Face hub: "OWNER/REPO[@REVISION][:CHOICE]".
struct HubName {
  std::string repository;         ///< "OWNER/REPO"
  std::string revision = "main";  ///< A branch, a tag or a commit.
  std::string choice;             ///< A quantisation or a file; "": the best one, see choose().

  /// As a user types it, without "hf:".
  [[nodiscard]] std::string text() const;
  bool operator==(const HubName&) const = default;
};

/// Reads the above, with or without "hf:", "hf.co/" or "https://huggingface.co/" before it. Fails
/// with `invalid`.
[[nodiscard]] Expected<HubName> parse_hub_name(std::string_view text);

/// A model in Ollama's store: "NAME[:TAG]", "OWNER/NAME[:TAG]" or "HOST/OWNER/NAME[:TAG]".
struct OllamaName {
  std::string host = "registry.ollama.ai";
  std::string owner = "library";
  std::string name;
  std::string tag = "latest";

  /// As Ollama itself writes it: without host and owner if they are the defaults.
  [[nodiscard]] std::string text() const;
  bool operator==(const OllamaName&) const = default;
};

/// Reads the above, with or without "ollama:" before it. Fails with `invalid`.
[[nodiscard]] Expected<OllamaName> parse_ollama_name(std::string_view text);

/// Whether `path`, where the path of a model's file is expected, is a name instead: it begins with
/// "hf:" or "ollama:".
[[nodiscard]] bool is_model_name(std::string_view path);
[[nodiscard]] bool is_hub_name(std::string_view path);

}  // namespace tenon::hub
