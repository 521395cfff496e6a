module github.com/sluicehttp/sluice/contrib/backplane-redis

go 1.26.0

require (
	github.com/redis/go-redis/v9 v9.23.0
	github.com/sluicehttp/sluice v0.1.0
)
