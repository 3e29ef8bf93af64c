#include "tenon/hub/pull.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "tenon/base/failure.h"
#include "tenon/base/hex.h"
#include "tenon/hub/cache.h"
#include "tenon/hub/file_list.h"
#include "tenon/hub/file_lock.h"
#include "tenon/hub/ollama.h"

// pull() asks the hub which commit a revision is, lists the files of that commit, chooses the model
// (file_list.h), and fetches each file into the cache (transfer.h, cache.h). If the hub does not
// answer, a model that is in the cache already is used, with a note. locate() looks into the cache
// first, and asks the hub only for what is not there.

namespace tenon::hub {
namespace {

namespace fs = std::filesystem;

// A name of a file or revision as a part of a URL; slashes stay if `keeps_slashes`. The revision
// "refs/pr/1" is one segment, "refs%2fpr%2f1"; the file "a/b.gguf" is two.
std::string escaped(std::string_view text, bool keeps_slashes) {
  std::string out;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c == '~';
    if (is_plain || (keeps_slashes && c == '/')) {
      out += c;
    } else {
      out += '%';
      append_hex(out, static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string stem_of(const std::string& path) {
  return fs::path(shard_of(path).stem).filename().string();
}

PulledModel model_of(const HubName& name, const std::string& commit, const Choice& choice,
                     const Cache& cache) {
  PulledModel model{.name = stem_of(choice.files.front().path),
                    .repository = name.repository,
                    .commit = commit,
                    .quantisation = choice.quantisation};
  for (const RemoteFile& file : choice.files) {
    model.files.push_back(cache.pointer(name.repository, commit, file.path).string());
    model.size += file.size;
  }
  // A model in several files is loaded by its first one.
  model.path = model.files.front();
  return model;
}

Status check_cache(const Settings& settings) {
  if (!settings.cache.empty()) return {};
  return invalid("there is no place for models: set HF_HUB_CACHE, or HOME");
}

// The commit that the revision names, and its files. Files are fetched by the commit, so that all
// shards belong together even if the branch moves meanwhile.
struct Listing {
  std::string commit;
  std::vector<RemoteFile> files;
};

Expected<Listing> list_files(const HubName& name, const Settings& settings, Transfer& transfer,
                             const Progress& progress) {
  const std::string repository = "/api/models/" + name.repository;
  const auto about = transfer.get_json(repository + "/revision/" + escaped(name.revision, false),
                                       nullptr, progress);
  if (!about) return Unexpected(about.error());
  const json::Value* const sha = about->find("sha");
  const std::string* const commit = sha == nullptr ? nullptr : sha->if_string();
  if (commit == nullptr || !is_commit(*commit)) {
    return unavailable(settings.endpoint + repository +
                       " does not say which commit it is, so it is no hub: check HF_ENDPOINT");
  }
  Listing listing{.commit = *commit};
  std::string target = repository + "/tree/" + *commit + "?recursive=true";
  for (unsigned pages = 1; !target.empty(); ++pages) {
    if (pages > settings.max_list_pages) {
      return Unexpected(
          Error{Errc::limit_exceeded, name.repository + " lists its files on more than " +
                                          std::to_string(settings.max_list_pages) + " pages"});
    }
    std::string next;
    const auto page = transfer.get_json(target, &next, progress);
    if (!page) return Unexpected(page.error());
    if (Status taken = append_files(*page, listing.files); !taken) {
      return Unexpected(Error{taken.error().code, name.repository + ": " + taken.error().message});
    }
    target = std::move(next);
  }
  return listing;
}

std::uint64_t size_if_file(const fs::path& path) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  return error ? 0 : size;
}

// Fails if the disk has no room for the bytes that are still missing.
Status check_room(const HubName& name, const Choice& choice, const Cache& cache) {
  std::uint64_t missing = 0;
  for (const RemoteFile& file : choice.files) {
    const std::uint64_t whole = size_if_file(cache.blob(name.repository, file.blob()));
    const std::uint64_t some = size_if_file(cache.incomplete(name.repository, file.blob()));
    if (whole != file.size) missing += file.size - std::min(some, file.size);
  }
  std::error_code error;
  fs::create_directories(cache.folder(), error);
  if (error) {
    return unavailable("cannot make the folder " + cache.folder().string() + ": " +
                       error.message() + "; HF_HUB_CACHE names another one");
  }
  const fs::space_info space = fs::space(cache.folder(), error);
  // Without an answer of the file system the download is tried all the same.
  if (error || missing <= space.available) return {};
  return unavailable(name.text() + " needs " + std::to_string(missing) + " bytes in " +
                     cache.folder().string() + ", and " + std::to_string(space.available) +
                     " are free: make room, or name another folder with HF_HUB_CACHE");
}

// Fetches the blob if it is not there. The caller holds its lock.
Status fetch_blob(const HubName& name, const std::string& commit, const RemoteFile& file,
                  const Cache& cache, Transfer& transfer, const Progress& progress) {
  const auto tell = [&](Event::Kind kind, std::string_view what = {}) {
    if (!progress) return;
    progress({.kind = kind, .file = file.path, .have = file.size, .size = file.size, .what = what});
  };
  const fs::path blob = cache.blob(name.repository, file.blob());
  const auto locked = FileLock::acquire(cache.lock(name.repository, file.blob()), [&] {
    tell(Event::Kind::wait, "another process is fetching this file; waiting for it");
  });
  if (!locked) return Unexpected(locked.error());
  std::error_code error;
  // Looked at under the lock: another process may have fetched it while this one waited.
  if (fs::exists(blob, error) && size_if_file(blob) == file.size) {
    tell(Event::Kind::found);
    return {};
  }
  fs::create_directories(blob.parent_path(), error);
  const fs::path incomplete = cache.incomplete(name.repository, file.blob());
  const std::string target =
      "/" + name.repository + "/resolve/" + commit + "/" + escaped(file.path, true);
  if (Status fetched = transfer.get_file(target, file, incomplete, progress); !fetched) {
    return fetched;
  }
  // A blob under its own name is always whole, and its hash was right.
  fs::rename(incomplete, blob, error);
  if (error) {
    return unavailable("cannot rename " + incomplete.string() + ": " + error.message());
  }
  tell(Event::Kind::done);
  return {};
}

Expected<PulledModel> fetch_model(const HubName& name, const Settings& settings, Transfer& transfer,
                                  const Listing& listing, const Progress& progress) {
  const Cache cache(settings.cache);
  const auto choice = choose(listing.files, name.choice, name.repository);
  if (!choice) return Unexpected(choice.error());
  if (Status room = check_room(name, *choice, cache); !room) return Unexpected(room.error());
  std::size_t number = 0;
  for (const RemoteFile& file : choice->files) {
    ++number;
    const Progress numbered = [&](Event event) {
      event.number = number;
      event.count = choice->files.size();
      if (progress) progress(event);
    };
    Status done = fetch_blob(name, listing.commit, file, cache, transfer, numbered);
    if (done) done = cache.link(name.repository, listing.commit, file.path, file.blob());
    if (!done) return Unexpected(done.error());
  }
  // Last, so that the revision does not name a commit whose files are not there yet.
  if (Status noted = cache.set_commit(name.repository, name.revision, listing.commit); !noted) {
    return Unexpected(noted.error());
  }
  return model_of(name, listing.commit, *choice, cache);
}

}  // namespace

Expected<PulledModel> find_cached(const HubName& name, const Settings& settings) {
  if (Status there = check_cache(settings); !there) return Unexpected(there.error());
  const Cache cache(settings.cache);
  const std::string where = name.repository + " in the cache " + cache.folder().string();
  const auto commit = cache.commit_of(name.repository, name.revision);
  if (!commit) {
    return invalid("nothing of revision '" + name.revision + "' of " + where);
  }
  std::vector<RemoteFile> files;
  for (CachedFile& file : cache.files(name.repository, *commit)) {
    // Without hashes: choose() does not need them, and the files are here.
    files.push_back({.path = std::move(file.path), .size = file.size});
  }
  const auto choice = choose(files, name.choice, where);
  if (!choice) return Unexpected(choice.error());
  return model_of(name, *commit, *choice, cache);
}

Expected<PulledModel> pull(const HubName& name, const Settings& settings,
                           const Progress& progress) {
  if (Status there = check_cache(settings); !there) return Unexpected(there.error());
  std::string why = "HF_HUB_OFFLINE is set";
  if (!settings.is_offline) {
    auto transfer = Transfer::create(settings);
    if (!transfer) return Unexpected(transfer.error());
    const auto listing = list_files(name, settings, **transfer, progress);
    if (listing) return fetch_model(name, settings, **transfer, *listing, progress);
    // The hub has answered that there is no such model, so an old copy would be a surprise.
    if (listing.error().code != Errc::unavailable) return Unexpected(listing.error());
    why = listing.error().message;
  }
  auto cached = find_cached(name, settings);
  if (cached) {
    cached->note = "the hub was not asked for a newer file (" + why + "); the cache has this one";
    return cached;
  }
  if (!settings.is_offline) {
    return unavailable(
        why + "; HF_ENDPOINT names a mirror, and --model takes a file that was copied here");
  }
  return unavailable(name.text() + " is not here (" + cached.error().message +
                     "), and HF_HUB_OFFLINE forbids to fetch it: unset that, or copy the file "
                     "here and name it with --model");
}

Expected<PulledModel> locate(std::string_view name, const Settings& settings,
                             const Progress& progress) {
  if (!is_hub_name(name)) {
    const auto parsed = parse_ollama_name(name);
    if (!parsed) return Unexpected(parsed.error());
    const auto found = find_ollama_model(*parsed, settings.ollama);
    if (!found) return Unexpected(found.error());
    return PulledModel{.path = found->location.string(),
                       .name = found->name,
                       .files = {found->location.string()},
                       .size = found->size};
  }
  const auto parsed = parse_hub_name(name);
  if (!parsed) return Unexpected(parsed.error());
  // The hub is not asked for a newer file: a start without a network is as fast as with one.
  if (auto cached = find_cached(*parsed, settings)) return cached;
  return pull(*parsed, settings, progress);
}

}  // namespace tenon::hub
