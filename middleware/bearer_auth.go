package middleware

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"strconv"
	"strings"

	"github.com/sluicehttp/sluice"
)

// BearerAuth returns a middleware that calls the handler if check returns true for the token of
// the request's Authorization field (RFC 6750), and answers 401 otherwise: without an error
// code if there was no token, and with invalid_token if check has refused it. It answers 400,
// invalid_request, to what is no token. Tokens in the query and in forms are not looked at:
// logs and histories keep those.
//
// check may call ctx.SetUserValue, as for the claims of a JWT. token is valid until the handler
// returns, and of the bytes that RFC 6750 allows.
func BearerAuth(realm string, check func(ctx *sluice.RequestCtx, token []byte) bool) func(sluice.RequestHandler) sluice.RequestHandler {
	if check == nil {
		panic("sluice: BearerAuth: check is nil")
	}
	challenge := "Bearer realm=" + quoted(realm)
	return func(h sluice.RequestHandler) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) {
			token, isBearer := authorization(ctx, "Bearer")
			switch {
			case !isBearer:
				refuse(ctx, sluice.StatusUnauthorized, challenge)
			case !isToken68(token):
				refuse(ctx, sluice.StatusBadRequest, challenge+`, error="invalid_request"`)
			case !check(ctx, token):
				refuse(ctx, sluice.StatusUnauthorized, challenge+`, error="invalid_token"`)
			default:
				h(ctx)
			}
		}
	}
}

// Tokens returns a check for BearerAuth, of a few tokens, each with the name of its owner, which
// UserOf returns afterwards. How long it takes does not depend on how much of a token is right.
//
// Tokens panics if a token is empty, as one from a variable that is not set, or has a character
// that none can have: letters, digits and -._~+/ are allowed, and = at the end.
func Tokens(owners map[string]string) func(ctx *sluice.RequestCtx, token []byte) bool {
	type secret struct {
		token [sha256.Size]byte
		owner any // a string
	}
	secrets := make([]secret, 0, len(owners))
	for token, owner := range owners {
		if !isToken68([]byte(token)) {
			panic("sluice: Tokens: the token of " + strconv.Quote(owner) + " is empty, or has a character that RFC 6750 does not allow, such as the end of a line")
		}
		secrets = append(secrets, secret{sha256.Sum256([]byte(token)), owner})
	}
	return func(ctx *sluice.RequestCtx, token []byte) bool {
		sum, found := sha256.Sum256(token), -1
		for i := range secrets { // all of them, whichever it is
			found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(secrets[i].token[:], sum[:]), i, found)
		}
		if found < 0 {
			return false
		}
		ctx.SetUserValue(userKey{}, secrets[found].owner)
		return true
	}
}

type userKey struct{}

// UserOf returns who has sent the request, as Accounts or Tokens has found; empty without.
func UserOf(ctx *sluice.RequestCtx) string {
	name, _ := ctx.UserValue(userKey{}).(string)
	return name
}

// authorization returns the credentials of a scheme (RFC 9110 section 11.6.2), of which a
// request has one field at most: the server refuses others. ok is false if there are none.
func authorization(ctx *sluice.RequestCtx, scheme string) (token []byte, ok bool) {
	given, token, _ := bytes.Cut(peek(ctx, sluice.HeaderAuthorization), []byte(" "))
	if !strings.EqualFold(string(given), scheme) {
		return nil, false
	}
	return bytes.Trim(token, " "), true
}

// isToken68 reports whether token is one of RFC 6750 section 2.1.
func isToken68(token []byte) bool {
	token = bytes.TrimRight(token, "=")
	for _, c := range token {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '-', c == '.', c == '_', c == '~', c == '+', c == '/':
		default:
			return false
		}
	}
	return len(token) > 0
}

// refuse answers with a challenge, which is not empty.
func refuse(ctx *sluice.RequestCtx, status int, challenge string) {
	ctx.Error(sluice.StatusMessage(status), status)
	ctx.Response.Header.Set(sluice.HeaderWWWAuthenticate, challenge)
}

// quoted returns text as a quoted-string (RFC 9110 section 5.6.4).
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}
