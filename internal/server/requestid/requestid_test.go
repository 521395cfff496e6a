package requestid

import (
	"context"
	"testing"
)

func TestOf(t *testing.T) {
	ctx := context.Background()
	if id := Of(ctx); id != "" {
		t.Errorf("%q", id)
	}
	if id := Of(context.WithValue(ctx, Key{}, "id7")); id != "id7" {
		t.Errorf("%q", id)
	}
}
