# Copilot Bridge with what it runs: git, and npm, which installs Copilot's runtime
# at the first start. It serves the mounted /workspace; clients need the token.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/copilot-bridge/copilot-bridge/internal/cli.version=$VERSION" -o /copilot-bridge ./cmd/copilot-bridge

FROM node:22-bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends bubblewrap ca-certificates git && rm -rf /var/lib/apt/lists/*
COPY --from=build /copilot-bridge /usr/bin/copilot-bridge
RUN mkdir /workspace && chown node:node /workspace
USER node
WORKDIR /workspace
EXPOSE 8788
ENTRYPOINT ["copilot-bridge"]
CMD ["serve", "--addr", "0.0.0.0", "--workspace", "/workspace"]
