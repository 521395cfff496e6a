package middleware

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// maxCredentials bounds the credentials of BasicAuth, in bytes.
const maxCredentials = 4 << 10

// BasicAuth returns a middleware that calls the handler if check returns true for the user and
// the password of the request (RFC 7617), and answers 401 otherwise. The browser shows realm.
// Use it over TLS only: the password is readable.
//
// check must not return sooner for users that do not exist than for wrong passwords, which
// would tell who has an account; Accounts does not. It may call ctx.SetUserValue. The slices
// are valid until it returns. They have no control characters, and user has no colon.
func BasicAuth(realm string, check func(ctx *sluice.RequestCtx, user, password []byte) bool) func(sluice.RequestHandler) sluice.RequestHandler {
	if check == nil {
		panic("sluice: BasicAuth: check is nil")
	}
	challenge := "Basic realm=" + quoted(realm) + `, charset="UTF-8"`
	return func(h sluice.RequestHandler) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) {
			token, _ := authorization(ctx, "Basic")
			if user, password, ok := decodeBasic(token); ok && check(ctx, user, password) {
				h(ctx)
				return
			}
			refuse(ctx, sluice.StatusUnauthorized, challenge)
		}
	}
}

// decodeBasic returns what is in the token of Basic credentials.
func decodeBasic(token []byte) (user, password []byte, ok bool) {
	if len(token) == 0 || len(token) > maxCredentials {
		return nil, nil, false
	}
	plain := make([]byte, base64.StdEncoding.DecodedLen(len(token)))
	n, err := base64.StdEncoding.Decode(plain, token)
	plain = plain[:n]
	if err != nil || ascii.HasCTL(plain) {
		return nil, nil, false
	}
	return bytes.Cut(plain, []byte(":"))
}

// Accounts returns a check for BasicAuth, of a few users with their passwords: programs that
// scrape metrics, a team that sees a preview. How long it takes depends neither on the user nor
// on the password. UserOf returns the user afterwards. For many users, write a check that asks
// a database for a hash that is made for passwords, such as that of argon2.
//
// Accounts panics if a password is empty: it often comes from a variable that is not set. It also
// does if a user has a colon, or one of them a control character, such as the end of a file's line:
// RFC 7617 does not allow those.
func Accounts(passwords map[string]string) func(ctx *sluice.RequestCtx, user, password []byte) bool {
	type account struct {
		user, password [sha256.Size]byte
		name           any // a string
	}
	accounts := make([]account, 0, len(passwords))
	for user, password := range passwords {
		if password == "" {
			panic("sluice: Accounts: the password of " + strconv.Quote(user) + " is empty")
		}
		if strings.Contains(user, ":") || ascii.HasCTL(user+password) {
			panic("sluice: Accounts: no client can send " + strconv.Quote(user) + " and its password: the user has a colon, or one of them a control character")
		}
		accounts = append(accounts, account{sha256.Sum256([]byte(user)), sha256.Sum256([]byte(password)), user})
	}
	return func(ctx *sluice.RequestCtx, user, password []byte) bool {
		userSum, passwordSum := sha256.Sum256(user), sha256.Sum256(password)
		found := -1
		for i := range accounts { // all of them, whichever it is
			a := &accounts[i]
			isRight := subtle.ConstantTimeCompare(a.user[:], userSum[:]) & subtle.ConstantTimeCompare(a.password[:], passwordSum[:])
			found = subtle.ConstantTimeSelect(isRight, i, found)
		}
		if found < 0 {
			return false
		}
		ctx.SetUserValue(userKey{}, accounts[found].name)
		return true
	}
}
