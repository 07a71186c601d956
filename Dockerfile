# The image of the action: the static binary, git for sources, and the certificates that https needs. Add the tools of
# your own graders in an image FROM this one, or run assay by a step of its own; docs/github/README.md shows both.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY internal internal
ARG VERSION=
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/assay-ci/assay/internal/cli.release=${VERSION}" -o /assay ./cmd/assay

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates git \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /assay /assay
# No USER: the runner lets a container action write its workspace as root only. Files are handed back to the owner of the
# workspace at the end.
ENTRYPOINT ["/assay"]
