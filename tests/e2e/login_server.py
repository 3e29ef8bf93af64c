"""A server of tools by the official SDK that wants a login: `python login_server.py PORT`. It is its own authorization server,
registers every client, and lets everyone in. A token is good for one call, so that it has to be renewed."""
import secrets
import sys
import time

from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken, construct_redirect_uri
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthToken

URL = f"http://127.0.0.1:{sys.argv[1]}"


class Provider:
    def __init__(self):
        self.clients, self.codes, self.tokens, self.refreshes = {}, {}, {}, {}

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        code = secrets.token_urlsafe(32)
        self.codes[code] = AuthorizationCode(
            code=code, scopes=params.scopes or [], expires_at=time.time() + 60, client_id=client.client_id,
            code_challenge=params.code_challenge, redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly, resource=params.resource)
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        del self.codes[authorization_code.code]
        return self.token_for(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client, refresh_token):
        return self.refreshes.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        del self.refreshes[refresh_token.token]
        return self.token_for(client, scopes, refresh_token.resource)

    async def load_access_token(self, token):
        return self.tokens.get(token)

    async def revoke_token(self, token):
        self.tokens.pop(token.token, None)

    def token_for(self, client, scopes, resource):
        token, refresh = "access-" + secrets.token_urlsafe(32), "refresh-" + secrets.token_urlsafe(32)
        self.tokens[token] = AccessToken(token=token, client_id=client.client_id, scopes=scopes, resource=resource)
        self.refreshes[refresh] = RefreshToken(token=refresh, client_id=client.client_id, scopes=scopes, resource=resource)
        return OAuthToken(access_token=token, refresh_token=refresh, scope=" ".join(scopes))


provider = Provider()
server = MCPServer("vault", auth_server_provider=provider, auth=AuthSettings(
    issuer_url=URL, resource_server_url=f"{URL}/mcp", required_scopes=["read"], validate_token_resource=True,
    client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["read"], default_scopes=["read"])))


@server.tool()
def secret() -> str:
    """Tells the secret"""
    provider.tokens.clear()
    return "the owl flies at noon"


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
