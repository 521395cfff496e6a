package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/balance"
)

// downAfter is how many tests in a row must fail for an upstream to be down.
const downAfter = 2

// watch tests the health of m until ctx ends.
func (p *Proxy) watch(ctx context.Context, m *balance.Member[*upstream]) {
	defer p.tests.Done()
	u, failures := m.Client, 0
	client := &sluice.HostClient{MaxResponseBodySize: 64 << 10}
	u.setClient(client, u.client.HTTP2)
	defer client.CloseIdleConnections()
	ticker := time.NewTicker(p.options.HealthInterval)
	defer ticker.Stop()
	for {
		err := p.test(ctx, u, client)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if failures++; failures == downAfter {
				m.SetDown(true)
				p.tell("proxy: %s is down: %v", u.name, err)
			}
		default:
			if failures >= downAfter {
				m.SetDown(false)
				p.tell("proxy: %s is up", u.name)
			}
			failures = 0
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// test asks u for HealthPath.
func (p *Proxy) test(ctx context.Context, u *upstream, client *sluice.HostClient) error {
	ctx, cancel := context.WithTimeout(ctx, p.options.HealthTimeout)
	defer cancel()
	req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
	defer sluice.ReleaseRequest(req)
	defer sluice.ReleaseResponse(resp)
	req.SetRequestURI(p.options.HealthPath)
	req.Header.SetHost(u.host)
	req.UseHostHeader = true
	if u.isTLS {
		req.URI().SetScheme("https")
	}
	if err := client.DoContext(ctx, req, resp); err != nil && !errors.Is(err, sluice.ErrBodyTooLarge) { // the page is not read
		return err
	}
	if status := resp.StatusCode(); status < 200 || status > 399 {
		return fmt.Errorf("it answers %s with %d", p.options.HealthPath, status)
	}
	return nil
}

// tell logs a change of health.
func (p *Proxy) tell(format string, args ...any) {
	if p.options.Logger != nil {
		p.options.Logger.Printf(format, args...)
	}
}
