"""What a user can do wrong with a synchronizer, with one worker in this process, and the rules that prevent it."""

import pytest
import torch
from torch import nn
from torch.optim import SGD

from wirebound.errors import InputError, WireboundError
from wirebound.techniques.catalogue import TECHNIQUES, Choices, needs_servers, synchronizer
from wirebound.techniques.job import Job
from wirebound.techniques.models import build_model
from wirebound.techniques.process_group import Meeting
from wirebound.techniques.recorder import Recorder
from wirebound.techniques.training import ready_order, run_job

WITHOUT_SERVERS = [technique for technique in TECHNIQUES if not needs_servers(technique)]


def small_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))


def connected(technique, model, meeting, recorder=None, **choices):
    optimizer = SGD(model.parameters(), lr=0.1)
    names = [name for name, _ in model.named_parameters()]
    return synchronizer(technique, model, optimizer, meeting, Choices(groups=[names], **choices), recorder), optimizer


@pytest.mark.parametrize("technique", WITHOUT_SERVERS)
def test_a_parameter_without_gradient_is_named(technique, meeting):
    model = small_model()
    sync, optimizer = connected(technique, model, meeting)
    model[0](torch.ones(3, 4)).sum().backward()
    with pytest.raises(InputError, match=r"parameter 2\.(weight|bias) got no gradient.*unused_parameters=True"):
        sync.step(optimizer)


@pytest.mark.parametrize("technique", WITHOUT_SERVERS)
def test_a_second_backward_pass_must_be_announced(technique, meeting):
    model = small_model()
    sync, _ = connected(technique, model, meeting)
    model(torch.ones(3, 4)).sum().backward()
    with pytest.raises(WireboundError, match=r"second gradient in one step.*no_sync"):
        model(torch.ones(3, 4)).sum().backward()
    sync.__exit__(WireboundError)


@pytest.mark.parametrize("technique", WITHOUT_SERVERS)
def test_closing_takes_all_hooks_off(technique, meeting):
    model = small_model()
    with connected(technique, model, meeting)[0]:
        assert any(parameter._post_accumulate_grad_hooks for parameter in model.parameters())
    assert not any(parameter._post_accumulate_grad_hooks for parameter in model.parameters())
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_weights_used_behind_their_modules_back_are_noticed(meeting):
    model = small_model()
    sync, optimizer = connected("bytescheduler-a2a", model, meeting)
    for _ in range(2):
        hidden = torch.nn.functional.linear(torch.ones(3, 4), model[0].weight, model[0].bias)
        loss = model[2](torch.tanh(hidden)).sum()
        if _ == 0:
            loss.backward()
            sync.step(optimizer)
    with pytest.raises(WireboundError, match=r"parameter 0\.(weight|bias) was used before its update"):
        loss.backward()


def test_finish_makes_the_updates_that_are_due(meeting):
    model, plain = small_model(), small_model()
    with connected("bytescheduler-a2a", model, meeting)[0] as sync:
        optimizer = sync._updates.optimizer
        before = model[0].weight.detach().clone()
        model(torch.ones(3, 4)).sum().backward()
        sync.step(optimizer)
        assert torch.equal(model[0].weight, before)  # not before the next forward pass
        sync.finish()
    plain(torch.ones(3, 4)).sum().backward()
    SGD(plain.parameters(), lr=0.1).step()
    assert torch.equal(model[0].weight, plain[0].weight)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_another_optimizer_is_a_mistake(meeting):
    model = small_model()
    sync, _ = connected("bytescheduler-a2a", model, meeting)
    with pytest.raises(InputError, match="another optimizer"):
        sync.step(SGD(model.parameters(), lr=0.1))


def test_messages_are_recorded_only_for_those_who_ask(meeting):
    model, recorder = build_model("mlp"), Recorder()
    order = [name for name, _ in reversed(list(model.named_parameters()))]
    loss = lambda: model(torch.ones(2, 3, 32, 32)).square().mean()  # noqa: E731
    assert ready_order(model, loss) == order
    sync, optimizer = connected("wfbp-a2a", model, meeting, recorder, order=order)
    with sync:
        loss().backward()
        sync.step(optimizer)
    assert [message.tensors for message in recorder.messages] == [(name,) for name in order]
    assert sum(message.size for message in recorder.messages) == 820_874 * 4
    for message, following in zip(recorder.messages, recorder.messages[1:], strict=False):
        assert message.ready_s <= message.start_s <= message.end_s <= following.start_s


def test_mistakes_in_names_and_numbers_are_one_line(meeting):
    model = small_model()
    with pytest.raises(InputError, match="did you mean 'wfbp-a2a'"):
        connected("wfbp-a2", model, meeting)
    with pytest.raises(InputError, match="mg-wfbp needs groups"):
        synchronizer("mg-wfbp", model, SGD(model.parameters(), lr=0.1), meeting)
    with pytest.raises(InputError, match="servers=1"):
        connected("bsp-ps", model, meeting)
    with pytest.raises(InputError, match="no parameters that need a gradient"):
        connected("bsp-a2a", small_model().requires_grad_(False), meeting)
    with pytest.raises(InputError, match="unknown model"):
        build_model("resnet2")
    with pytest.raises(InputError, match="needs at least 1 parameter server"):
        run_job(Job("mlp", "bsp-ps"))
    with pytest.raises(InputError, match="needs no parameter server"):
        run_job(Job("mlp", "bsp-a2a", servers=1))
    with pytest.raises(InputError, match="workers = 0"):
        Job("mlp", "bsp-a2a", workers=0)
    with pytest.raises(InputError, match="unknown backend"):
        Meeting(meeting.store, 0, 1, backend="mpi")
    with pytest.raises(InputError, match="rank 1"):
        Meeting(meeting.store, 1, 1)
