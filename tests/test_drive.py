"""A strategy in a loop of its user's chooses, orders and weighs as in our own trainer."""


import pytest
from driving import (
    DRIVABLE,
    Loop,
    drive_of,
    same_weights,
    task_for,
    trained,
)

COMPOSED = [
    "infobatch+selective_backprop_batch[start=0.2]",
    "random_subset[keep=0.8]+kakurenbo",
    "selective_backprop[stale=2,history=40]",
    "auto_assist[epoch=batches,bootstrap=0]",
    "self_paced[weights=soft]+progressive_resizing[mode=crop,delay=0,finetune=0]",
    "el2n[models=1,epochs=1,steps=fixed]",
    "mixtrain_mixup[selection=none]",
    "short_schedule[share=0.7]",
]


@pytest.mark.parametrize("text", [*DRIVABLE, *COMPOSED])
def test_same_samples_in_the_same_order_and_the_same_weights_bit_by_bit(text):
    task = task_for(text)
    batches, model = trained(text, task, seed=3)
    loop = Loop(drive_of(text, task, seed=3), task)
    loop.train(loop.drive)
    assert loop.batches == batches
    assert same_weights(loop.model, model)
    assert loop.drive.progress == 1
