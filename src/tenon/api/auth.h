#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tenon/http/message.h"

namespace tenon::api {

/// Whether only this machine can reach it: 127.0.0.0/8, ::1 and the name "localhost".
[[nodiscard]] bool is_loopback(std::string_view host);

/// Whether the request was sent to a loopback name, to one of `allowed` ("*": any), or without a
/// Host. For servers without keys: a page in a browser can talk to this machine under a name that
/// its owner points here (DNS rebinding), and the browser sends that name as Host.
[[nodiscard]] bool admits_host(const http::Request& request,
                               const std::vector<std::string>& allowed);

/// Whether the request comes from no browser's page, from one of this server's pages, or from one
/// of `allowed` ("*": any). For servers without keys: any page can make its visitors' browsers send
/// requests here, which cost and change things although the page never sees the answer.
[[nodiscard]] bool admits_origin(const http::Request& request,
                                 const std::vector<std::string>& allowed);

}  // namespace tenon::api
