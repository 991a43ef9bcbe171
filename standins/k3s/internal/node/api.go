// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// apiClient speaks to the API server as the supervisor.
type apiClient struct {
	url  string
	http *http.Client
}

func (l *Layout) newAPIClient() (*apiClient, error) {
	pair, err := tls.LoadX509KeyPair(l.tls("client-supervisor.crt"), l.tls("client-supervisor.key"))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(l.tls("server-ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("server-ca.crt holds no certificate")
	}
	return &apiClient{l.APIURL(), &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
			IdleConnTimeout: 20 * time.Second,
		},
	}}, nil
}

var errNotFound = errors.New("not found")

func (a *apiClient) do(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, a.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "k3s-supervisor")
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := a.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode == http.StatusNotFound:
		return nil, errNotFound
	case response.StatusCode/100 != 2:
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, response.Status, strings.TrimSpace(string(content)))
	}
	return content, nil
}

func (a *apiClient) get(ctx context.Context, path string, into any) error {
	content, err := a.do(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}

// patch merges an object into the one at path.
func (a *apiClient) patch(ctx context.Context, path string, change any) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = a.do(ctx, http.MethodPatch, path+"?fieldManager=k3s-supervisor", "application/merge-patch+json", body)
	return err
}

// ready asks the API server about itself.
func (a *apiClient) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	content, err := a.do(ctx, http.MethodGet, "/readyz", "", nil)
	if err == nil && strings.TrimSpace(string(content)) != "ok" {
		err = fmt.Errorf("/readyz says %q", content)
	}
	return err
}
