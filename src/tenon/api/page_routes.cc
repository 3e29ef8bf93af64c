// The pages: the first one, and the inspector of recordings (web/).

#include <algorithm>
#include <string>
#include <string_view>

#include "tenon/api/routes.h"
#include "tenon/api/web_pages.h"

namespace tenon::api {
namespace {

struct WebPage {
  std::string_view path;
  std::string_view file;  // in web/dist
  std::string_view type;
};

constexpr std::string_view kHtml = "text/html; charset=utf-8";
constexpr std::string_view kScript = "text/javascript; charset=utf-8";
constexpr std::string_view kStyle = "text/css; charset=utf-8";
constexpr WebPage kPages[] = {
    {"/", "home.html", kHtml},
    {"/home.js", "home.js", kScript},
    {"/home.css", "home.css", kStyle},
    {"/inspector", "index.html", kHtml},
    {"/inspector/app.js", "app.js", kScript},
    {"/inspector/app.css", "app.css", kStyle},
};

// The pages show texts of clients and models: a browser runs no script and shows no style but ours,
// and talks to this server alone.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

void give(const WebPage& page, Call& call) {
  const auto files = web_pages();
  const auto file =
      std::ranges::find_if(files, [&](const auto& one) { return one.name == page.file; });
  call.headers.push_back({"content-security-policy", std::string(kPolicy)});
  call.headers.push_back({"x-content-type-options", "nosniff"});
  call.headers.push_back({"referrer-policy", "no-referrer"});
  call.headers.push_back({"cache-control", "no-cache"});
  respond(call, {.content_type = std::string(page.type), .body = std::string(file->bytes)});
}

}  // namespace

std::vector<Route> page_routes(ServiceParts& /*parts*/) {
  std::vector<Route> routes;
  for (const WebPage& page : kPages) {
    routes.push_back({.method = "GET",
                      .path = page.path,
                      .serve = [&page](Call& call) { give(page, call); },
                      .traits = Route::kOpen | Route::kEarly});
  }
  return routes;
}

}  // namespace tenon::api
