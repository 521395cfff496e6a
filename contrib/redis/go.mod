module github.com/sluicehttp/sluice/contrib/redis

go 1.26.0

require (
	github.com/redis/go-redis/v9 v9.23.0
	github.com/sluicehttp/sluice v0.1.0
)

require (
	github.com/andybalholm/brotli v1.2.8 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
