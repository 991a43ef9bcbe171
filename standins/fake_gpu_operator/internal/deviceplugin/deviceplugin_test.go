// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package deviceplugin

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// kubelet is the registration side of a kubelet on a real socket.
type kubelet struct {
	pluginapi.UnimplementedRegistrationServer
	requests chan *pluginapi.RegisterRequest
	server   *grpc.Server
}

func (k *kubelet) Register(_ context.Context, request *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	k.requests <- request
	return &pluginapi.Empty{}, nil
}

func startKubelet(t *testing.T, dir string) *kubelet {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(dir, "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	started := &kubelet{requests: make(chan *pluginapi.RegisterRequest, 4), server: grpc.NewServer()}
	pluginapi.RegisterRegistrationServer(started.server, started)
	go started.server.Serve(listener)
	t.Cleanup(started.server.Stop)
	return started
}

func (k *kubelet) registered(t *testing.T) *pluginapi.RegisterRequest {
	t.Helper()
	select {
	case request := <-k.requests:
		return request
	case <-time.After(10 * time.Second):
		t.Fatal("no registration")
		return nil
	}
}

func run(t *testing.T, plugin *Plugin) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- plugin.Run(ctx) }()
	return func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(5 * time.Second):
			t.Fatal("the plugin does not stop")
			return nil
		}
	}
}

func dial(t *testing.T, socket string) pluginapi.DevicePluginClient {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return pluginapi.NewDevicePluginClient(conn)
}

func TestPluginOverRealSockets(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	dir := t.TempDir()
	socket := filepath.Join(dir, "fake-nvidia-gpu.sock")
	if err := os.WriteFile(socket, nil, 0o600); err != nil { // what the last process left
		t.Fatal(err)
	}
	kubelet := startKubelet(t, dir)
	stop := run(t, New("gpu-lab", dir, 2))
	request := kubelet.registered(t)
	if request.Version != "v1beta1" || request.Endpoint != "fake-nvidia-gpu.sock" || request.ResourceName != "nvidia.com/gpu" {
		t.Errorf("request %v", request)
	}

	client := dial(t, socket)
	options, err := client.GetDevicePluginOptions(ctx, &pluginapi.Empty{})
	if err != nil || options.PreStartRequired || options.GetPreferredAllocationAvailable {
		t.Errorf("options %v, %v", options, err)
	}
	stream, err := client.ListAndWatch(ctx, &pluginapi.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Devices) != 2 {
		t.Fatalf("devices %v", list.Devices)
	}
	var ids []string
	for _, device := range list.Devices {
		if id, err := uuid.Parse(device.ID); err != nil || id.Version() != 4 || device.Health != pluginapi.Healthy {
			t.Errorf("device %v: %v", device, err)
		}
		ids = append(ids, device.ID)
	}
	response, err := client.Allocate(ctx, &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}, {DevicesIds: ids[1:]}}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{strings.Join(ids, ","), ids[1]} {
		got := response.ContainerResponses[i]
		if len(got.Envs) != 2 || got.Envs["MOCK_NVIDIA_VISIBLE_DEVICES"] != want || got.Envs["NODE_NAME"] != "gpu-lab" {
			t.Errorf("envs %v", got.Envs)
		}
		if len(got.Mounts) != 1 || got.Mounts[0].ContainerPath != "/bin/nvidia-smi" || got.Mounts[0].HostPath != "/var/lib/runai/bin/nvidia-smi" {
			t.Errorf("mounts %v", got.Mounts)
		}
	}

	if err := stop(); err != nil {
		t.Errorf("stopped with %v", err)
	}
	if _, err := stream.Recv(); err == nil {
		t.Error("the stream outlives the plugin")
	}
	if _, err := os.Lstat(socket); err != nil {
		t.Errorf("the socket file is gone: %v", err)
	}

	stop = run(t, New("gpu-lab", dir, 2))
	kubelet.registered(t)
	stream, err = dial(t, socket).ListAndWatch(ctx, &pluginapi.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range again.Devices {
		if device.ID == ids[0] || device.ID == ids[1] {
			t.Error("an id came back after a restart")
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestNoSecondRegistrationAfterAKubeletRestart(t *testing.T) {
	dir := t.TempDir()
	first := startKubelet(t, dir)
	stop := run(t, New("gpu-lab", dir, 1))
	first.registered(t)
	first.server.Stop()
	if err := os.Remove(filepath.Join(dir, "fake-nvidia-gpu.sock")); err != nil { // a starting kubelet empties the folder
		t.Fatal(err)
	}
	second := startKubelet(t, dir)
	select {
	case request := <-second.requests:
		t.Errorf("registered again: %v", request)
	case <-time.After(2 * time.Second):
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestWithoutAKubeletThePluginFails(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := New("gpu-lab", t.TempDir(), 1).Run(ctx); err == nil || !strings.Contains(err.Error(), "could not register with the kubelet") {
		t.Errorf("err = %v", err)
	}
}

func TestInstall(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "image", "nvidia-smi"), filepath.Join(dir, "host", "bin", "nvidia-smi")
	old, recent := time.Unix(1000000000, 0), time.Unix(1100000000, 0)
	write := func(path, text string, modified time.Time) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, modified, modified); err != nil {
			t.Fatal(err)
		}
	}
	check := func(step string, installed bool) {
		t.Helper()
		before, _ := os.Stat(to)
		if err := Install(from, to); err != nil {
			t.Fatal(err)
		}
		after, err := os.Stat(to)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(to)
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != "new" || after.Mode() != 0o755 {
			t.Errorf("%s: %q, mode %v", step, text, after.Mode())
		}
		if os.SameFile(before, after) == installed {
			t.Errorf("%s: installed = %t, want %t", step, !installed, installed)
		}
		if entries, err := os.ReadDir(filepath.Dir(to)); err != nil || len(entries) != 1 {
			t.Errorf("%s: left behind %v, %v", step, entries, err)
		}
	}
	if err := Install(from, to); err == nil {
		t.Error("a missing source is no error")
	}
	write(from, "new", recent)
	check("missing", true)
	check("same", false)
	write(to, "new", old)
	check("older", true)
	write(to, "changed", recent.Add(time.Hour))
	check("another one", true)
}
