#include "tenon/hub/file_list.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tenon/base/failure.h"

// From the list of a repository's files to the one model that is meant. append_files() reads the
// pages of the hub's list and trusts nothing in them: names, sizes and hashes are checked before
// anything is fetched. choose() groups files to models by shard_of() ("m-00001-of-00002.gguf" and
// its fellow are one), finds those that are called as wanted (matching), and checks that all shards
// are there (whole_model).

namespace tenon::hub {
namespace {

constexpr std::string_view kExtension = ".gguf";
constexpr std::size_t kMaxPath = 1024;
constexpr std::size_t kMaxPart = 255;  // bytes of a file's name, on every file system
constexpr std::size_t kMaxFiles = 100'000;
constexpr std::size_t kMaxNamed = 30;                       // names in one message
constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 46;  // 64 TiB: kMaxFiles of them fit 64 bits

std::string upper(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

bool is_gguf(std::string_view path) {
  return path.size() > kExtension.size() &&
         upper(path.substr(path.size() - kExtension.size())) == ".GGUF";
}

// Whether `path` stays inside its folder, on every file system and however a program reads it.
bool stays_inside(std::string_view path) {
  if (path.empty() || path.size() > kMaxPath) return false;
  while (true) {
    const std::size_t end = path.find('/');
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part.size() > kMaxPart || part == "." || part == "..") return false;
    for (const char c : part) {
      if (static_cast<unsigned char>(c) < ' ' || c == '\x7f' || c == '\\') return false;
    }
    if (end == std::string_view::npos) return true;
    path.remove_prefix(end + 1);
  }
}

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string text_of(const json::Value* value) {
  const std::string* text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? std::string() : *text;
}

std::optional<std::uint64_t> size_of(const json::Value* value) {
  const json::Number* number = value == nullptr ? nullptr : value->if_number();
  const auto size = number == nullptr ? std::nullopt : number->to_int64();
  if (!size || *size < 0 || static_cast<std::uint64_t>(*size) > kMaxSize) return std::nullopt;
  return static_cast<std::uint64_t>(*size);
}

std::string_view name_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// Projectors of images and importance matrices are GGUF files too, but no models.
bool is_model(std::string_view path) {
  const std::string name = upper(name_of(path));
  return name.find("MMPROJ") == std::string::npos && name.find("IMATRIX") == std::string::npos;
}

// Formats that are called by their name alone, without "Q" and digits.
bool is_float(std::string_view word) {
  return word == "F16" || word == "F32" || word == "BF16" || word == "FP16" || word == "FP32" ||
         word == "F64" || word.starts_with("MXFP4") || word.starts_with("NVFP4");
}

// "Q4_K_M", "IQ3_XXS", "TQ1_0": letters, one digit, and more after an underscore.
bool is_quantisation(std::string_view word) {
  if (is_float(word)) return true;
  for (const std::string_view letters : {"IQ", "TQ", "Q"}) {
    if (!word.starts_with(letters)) continue;
    word.remove_prefix(letters.size());
    return !word.empty() && word.front() >= '1' && word.front() <= '8' &&
           (word.size() == 1 || word[1] == '_') && std::ranges::all_of(word, [](unsigned char c) {
             return std::isalnum(c) != 0 || c == '_';
           });
  }
  return false;
}

// One spelling for each: "fp16" and "F16" are "F16".
std::string normal(std::string_view quantisation) {
  std::string text = upper(quantisation);
  if (text == "FP16") return "F16";
  if (text == "FP32") return "F32";
  return text;
}

std::string listed(const std::set<std::string>& names) {
  std::string text;
  std::size_t count = 0;
  for (const std::string& name : names) {
    if (count++ == kMaxNamed)
      return text + ", and " + std::to_string(names.size() - kMaxNamed) + " more";
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

// Models by the names of their files, without the numbers of shards and without ".gguf".
using Models = std::map<std::string, std::vector<const RemoteFile*>>;

Models models_of(const std::vector<RemoteFile>& files) {
  Models models;
  for (const RemoteFile& file : files) {
    if (is_model(file.path)) models[shard_of(file.path).stem].push_back(&file);
  }
  return models;
}

Models having(const Models& models, std::string_view quantisation) {
  Models found;
  for (const auto& [stem, files] : models) {
    if (quantisation_of(stem) == quantisation) found.emplace(stem, files);
  }
  return found;
}

// The models that `wanted` may mean; several if it does not say which. The most exact meaning
// counts: a path, else a file's name, else a quantisation.
Models matching(const Models& models, std::string_view wanted) {
  if (wanted.empty()) {
    if (models.size() == 1) return models;
    for (const std::string_view quantisation : kPreferred) {
      if (Models found = having(models, quantisation); !found.empty()) return found;
    }
    return {};
  }
  // A path is unique, so it is tried before names and quantisations.
  for (const auto& [stem, files] : models) {
    for (const RemoteFile* file : files) {
      if (file->path == wanted || stem == wanted) return {{stem, files}};
    }
  }
  Models named;
  for (const auto& [stem, files] : models) {
    if (std::ranges::any_of(
            files, [&](const RemoteFile* file) { return name_of(file->path) == wanted; })) {
      named.emplace(stem, files);
    }
  }
  if (!named.empty()) return named;
  Models found = having(models, normal(wanted));
  return found.empty() ? having(models, "UD-" + normal(wanted)) : found;
}

// All shards in order, or which one is missing.
Expected<std::vector<RemoteFile>> whole_model(std::vector<const RemoteFile*> files,
                                              std::string_view where) {
  const auto number_of = [](const RemoteFile* file) { return shard_of(file->path).number; };
  std::ranges::sort(files, {}, number_of);
  const std::uint32_t count = shard_of(files.front()->path).count;
  std::vector<RemoteFile> whole;
  for (std::uint32_t number = 1; number <= count; ++number) {
    const bool is_there = number <= files.size() && number_of(files[number - 1]) == number &&
                          shard_of(files[number - 1]->path).count == count;
    if (!is_there) {
      return invalid("file " + std::to_string(number) + " of " + std::to_string(count) + " of " +
                     shard_of(files.front()->path).stem + " is not in " + std::string(where));
    }
    whole.push_back(*files[number - 1]);
  }
  if (files.size() != count) {
    return invalid(std::string(where) + " has too many files of " +
                   shard_of(files.front()->path).stem);
  }
  return whole;
}

}  // namespace

Status append_files(const json::Value& page, std::vector<RemoteFile>& files) {
  const json::Array* entries = page.if_array();
  if (entries == nullptr) {
    return invalid("the list of files is no JSON array, but " +
                   std::string(json::kind_name(page.kind())));
  }
  std::set<std::string, std::less<>> paths;
  for (const RemoteFile& file : files) paths.insert(file.path);
  for (const json::Value& entry : *entries) {
    const std::string path = text_of(entry.find("path"));
    if (text_of(entry.find("type")) != "file" || !is_gguf(path)) continue;
    const auto wrong = [&path](std::string_view why) {
      return invalid("the list of files has " + json::quoted(path.substr(0, kMaxPart)) + ", " +
                     std::string(why) + ": nothing was fetched");
    };
    if (!stays_inside(path)) return wrong("whose name could lead out of the folder");
    if (!paths.insert(path).second) return wrong("twice");
    if (files.size() == kMaxFiles) return wrong("and more than " + std::to_string(kMaxFiles));
    RemoteFile file{.path = path};
    // Large files are in git LFS, with the SHA-256 of their bytes; the others have git's own hash.
    const json::Value* lfs = entry.find("lfs");
    const bool is_large = lfs != nullptr && lfs->if_object() != nullptr;
    const auto size = size_of(is_large ? lfs->find("size") : entry.find("size"));
    if (!size) return wrong("whose size is malformed");
    file.size = *size;
    (is_large ? file.sha256 : file.git_oid) = text_of((is_large ? lfs : &entry)->find("oid"));
    if (!is_hex(file.blob(), is_large ? 64 : 40)) return wrong("whose hash is malformed");
    files.push_back(std::move(file));
  }
  return {};
}

std::string quantisation_of(std::string_view path) {
  const std::string name = upper(name_of(shard_of(path).stem));
  // The last word that is a quantisation: for "Q8-model.Q4_K_M", Q4_K_M. Words end at '-' and '.',
  // and may also begin after '_': "model_Q4_K_M".
  std::string found;
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find_first_of("-.", begin), name.size());
    for (std::size_t at = begin; at < end; ++at) {
      if (at > begin && name[at - 1] != '_') continue;
      const std::string_view word = std::string_view(name).substr(at, end - at);
      if (!is_quantisation(word)) continue;
      // "UD" before the word, as a word of its own, is a part of the name: "M-UD-Q4_K_XL".
      const bool is_dynamic = at == begin && begin >= 3 && name.substr(begin - 3, 3) == "UD-" &&
                              (begin == 3 || name[begin - 4] == '-' || name[begin - 4] == '.');
      found = (is_dynamic ? "UD-" : "") + normal(word);
      break;
    }
    begin = end + 1;
  }
  return found;
}

Shard shard_of(std::string_view path) {
  if (is_gguf(path)) path.remove_suffix(kExtension.size());
  Shard shard{.stem = std::string(path)};
  // Five digits, "-of-", five digits: what llama.cpp's gguf-split writes.
  constexpr std::string_view kPattern = "-00001-of-00001";
  if (path.size() <= kPattern.size()) return shard;
  const std::string_view end = path.substr(path.size() - kPattern.size());
  if (end[0] != '-' || end.substr(6, 4) != "-of-") return shard;
  const auto number = [](std::string_view digits) {
    std::uint32_t value = 0;
    const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && rest == digits.data() + digits.size() ? value : 0;
  };
  const std::uint32_t at = number(end.substr(1, 5));
  const std::uint32_t count = number(end.substr(10));
  if (at == 0 || at > count) return shard;
  return {.stem = std::string(path.substr(0, path.size() - kPattern.size())),
          .number = at,
          .count = count};
}

Expected<Choice> choose(const std::vector<RemoteFile>& files, std::string_view wanted,
                        std::string_view where) {
  const Models models = models_of(files);
  if (models.empty()) {
    return invalid(std::string(where) +
                   " has no GGUF file: look for a repository with GGUF in its name");
  }
  const Models found = matching(models, wanted);
  if (found.empty()) {
    std::set<std::string> names;
    for (const auto& [stem, parts] : models) {
      const std::string quantisation = quantisation_of(stem);
      names.insert(quantisation.empty() ? parts.front()->path : quantisation);
    }
    return invalid((wanted.empty() ? "none of the usual quantisations is"
                                   : "'" + std::string(wanted) + "' is not") +
                   " in " + std::string(where) + ": there are " + listed(names) +
                   "; name one after a colon");
  }
  if (found.size() > 1) {
    std::set<std::string> names;
    for (const auto& [stem, parts] : found) names.insert(parts.front()->path);
    return invalid(std::string(where) + " has several models " +
                   (wanted.empty() ? "of " + quantisation_of(found.begin()->first)
                                   : "that are called '" + std::string(wanted) + "'") +
                   ": name one of these files after a colon: " + listed(names));
  }
  auto whole = whole_model(found.begin()->second, where);
  if (!whole) return Unexpected(whole.error());
  return Choice{.quantisation = quantisation_of(found.begin()->first), .files = *std::move(whole)};
}

}  // namespace tenon::hub
